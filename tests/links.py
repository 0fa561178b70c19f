"""Prints each link of a document in the repository that leads nowhere: to a file that is not there, or to a heading that
its document does not have. Headings have the anchors that GitHub gives them."""
import os
import re
import subprocess


def lines(path):
    """(number, line) outside of code blocks."""
    code = False
    with open(path, encoding="utf-8") as f:
        for number, line in enumerate(f, 1):
            if line.startswith("```"):
                code = not code
            elif not code:
                yield number, line


def anchors(path):
    seen, found = {}, set()
    for _, line in lines(path):
        heading = re.match(r"#+ +(.*\S)", line)
        if heading:
            text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading[1]).lower()
            anchor = re.sub(r"[^\w\- ]", "", text).replace(" ", "-")
            seen[anchor] = seen.get(anchor, -1) + 1
            found.add(f"{anchor}-{seen[anchor]}" if seen[anchor] else anchor)
    return found


def main():
    for path in subprocess.check_output(["git", "ls-files", "*.md"], text=True).split():
        for number, line in lines(path):
            for target, anchor in re.findall(r"\]\(([^)\s:#]*)(?:#([^)\s]+))?\)", line):
                there = os.path.join(os.path.dirname(path), target) if target else path
                if not os.path.exists(there):
                    print(f"{path}:{number}: {target}")
                elif anchor and there.endswith(".md") and anchor not in anchors(there):
                    print(f"{path}:{number}: {target}#{anchor}")


main()
