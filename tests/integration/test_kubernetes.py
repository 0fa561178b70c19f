"""conf/kubernetes against the schemas of Kubernetes (package kubernetes-validate has them) and of KEDA 2.16 (package
cloudcoil-models-keda is generated from KEDA's CustomResourceDefinition), and what the manifests say of stenod against stenod."""
# not under sanitizers: nothing of it runs
import os
import re
import shutil
import subprocess
import sys
import tempfile

import jsonschema
import yaml

from daemon import BUILD, ROOT, Skip, case, tap

DIR = os.path.join(ROOT, "conf", "kubernetes")
VERSION = "1.31"


def manifests(name="steno.yaml"):
    with open(os.path.join(DIR, name), encoding="utf-8") as f:
        return list(yaml.safe_load_all(f))


def one(kind):
    return next(m for m in manifests() if m["kind"] == kind)


def pod():
    return one("Deployment")["spec"]["template"]["spec"]


@case
def every_manifest_has_the_form_of_its_schema():
    import kubernetes_validate
    for m in manifests():
        kubernetes_validate.validate(m, VERSION, strict=True)
    wrong = one("Deployment")
    wrong["spec"]["replica"] = wrong["spec"].pop("replicas")
    try:
        kubernetes_validate.validate(wrong, VERSION, strict=True)
    except kubernetes_validate.ValidationError:
        return
    raise AssertionError("the schemas find nothing")


# What KEDA's Prometheus scaler takes; the CustomResourceDefinition allows any strings. Source: keda.sh/docs, Scalers, Prometheus.
PROMETHEUS = {
    "type": "object",
    "additionalProperties": False,
    "required": ["serverAddress", "query", "threshold"],
    "properties": {
        "serverAddress": {"type": "string", "pattern": "^https?://"},
        "query": {"type": "string", "minLength": 1},
        "threshold": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
        "activationThreshold": {"type": "string", "pattern": r"^[0-9]+(\.[0-9]+)?$"},
        "namespace": {"type": "string"},
        "customHeaders": {"type": "string"},
        "queryParameters": {"type": "string"},
        "ignoreNullValues": {"enum": ["true", "false"]},
        "unsafeSsl": {"enum": ["true", "false"]},
        "timeout": {"type": "string", "pattern": "^[0-9]+$"},
    },
}


@case
def kedas_resource_has_the_form_of_its_schema():
    from cloudcoil.models.keda import v1alpha1
    schema = v1alpha1.ScaledObject.model_json_schema(by_alias=True)
    for form in (schema, *schema["$defs"].values()):
        if "properties" in form:
            form["additionalProperties"] = False
    (m,) = manifests("keda.yaml")
    assert (m["apiVersion"], m["kind"]) == ("keda.sh/v1alpha1", "ScaledObject")
    jsonschema.validate(m, schema)
    for t in m["spec"]["triggers"]:
        assert t["type"] == "prometheus" and t["metricType"] in ("AverageValue", "Value"), t
        jsonschema.validate(t["metadata"], PROMETHEUS)
    assert m["spec"]["scaleTargetRef"]["name"] == one("Deployment")["metadata"]["name"]
    for change in ({"maxReplica": 5}, {"minReplicaCount": "three"}, {"triggers": None}, {"triggers": [{"type": "prometheus"}]}):
        try:
            jsonschema.validate({**m, "spec": {**m["spec"], **change}}, schema)
        except jsonschema.ValidationError:
            continue
        raise AssertionError(f"the schema takes {change}")


@case
def names_and_ports_fit_together():
    labels = one("Deployment")["spec"]["template"]["metadata"]["labels"]
    assert one("Deployment")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    ports = {p["name"] for p in pod()["containers"][0]["ports"]}
    for s in (m for m in manifests() if m["kind"] == "Service"):
        assert s["spec"]["selector"].items() <= labels.items()
        assert {p["targetPort"] for p in s["spec"]["ports"]} <= ports
    assert one("PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels.items()
    volumes = {v["name"] for v in pod()["volumes"]}
    assert {v["name"] for v in pod()["containers"][0]["volumeMounts"]} == volumes
    assert one("HorizontalPodAutoscaler")["spec"]["scaleTargetRef"]["name"] == one("Deployment")["metadata"]["name"]


@case
def stenod_takes_the_configuration():
    text = one("ConfigMap")["data"]["steno.conf"]
    with tempfile.TemporaryDirectory() as t:
        path = os.path.join(t, "steno.conf")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text.replace("/models/default", os.path.join(ROOT, "conf", "models", "digits-en")).replace(":8080", ":0").replace(":8081", ":0"))
        p = subprocess.run([os.path.join(BUILD, "stenod"), "--config", path, "--check-config"], capture_output=True, text=True, cwd=ROOT,
                           timeout=120, check=False)
        assert p.returncode == 0, p.stdout + p.stderr
    drain = float(re.search(r"drain_timeout = (\d+)", text).group(1))
    stop = pod()["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert pod()["terminationGracePeriodSeconds"] >= drain + float(re.search(r"sleep (\d+)", stop).group(1)) + 10


@case
def metrics_and_probes_exist():
    with open(os.path.join(ROOT, "docs", "metrics.md"), encoding="utf-8") as f:
        known = f.read()
    query = manifests("keda.yaml")[0]["spec"]["triggers"][0]["metadata"]["query"]
    for name in re.findall(r"\bsteno_\w+", query):
        assert f"`{name}`" in known, name
    with open(os.path.join(ROOT, "docs", "openapi.yaml"), encoding="utf-8") as f:
        paths = yaml.safe_load(f)["paths"]
    c = pod()["containers"][0]
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert c[probe]["httpGet"]["path"] in paths
    assert c["securityContext"]["readOnlyRootFilesystem"] and pod()["securityContext"]["runAsNonRoot"]


@case
def the_container_has_the_libraries_that_the_programs_need():
    """The packages of the second stage against those that the built programs load here (Debian 12)."""
    if not shutil.which("dpkg"):
        raise Skip("not Debian")
    with open(os.path.join(ROOT, "conf", "container", "Containerfile"), encoding="utf-8") as f:
        stage = f.read().split("\nFROM ")[-1]
    named = set(re.findall(r"[a-z][a-z0-9.+-]+", stage.split("install -y", 1)[1].split("rm -rf")[0]))
    for program in ("stenod", "steno-decode"):
        dynamic = subprocess.run(["objdump", "-p", os.path.join(BUILD, program)], capture_output=True, text=True, check=True).stdout
        paths = subprocess.run(["ldd", os.path.join(BUILD, program)], capture_output=True, text=True, check=True).stdout
        for soname in re.findall(r"NEEDED +(\S+)", dynamic):
            where = re.search(rf"{re.escape(soname)} => (\S+)", paths)
            if not where:
                continue
            owner = ""
            for path in (where.group(1), os.path.realpath(where.group(1)), "/usr" + where.group(1)):
                p = subprocess.run(["dpkg", "-S", path], capture_output=True, text=True, check=False)
                owner = p.stdout.split(":")[0] if p.returncode == 0 else owner
            if owner and owner not in ("libc6", "libgcc-s1", "libstdc++6"):
                assert owner in named or "openblas" in owner, f"{program} needs {owner} ({soname})"


if __name__ == "__main__":
    sys.exit(tap())
