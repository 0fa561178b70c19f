/* Attention of a streaming Zipformer as icefall exports it, as text for pc_graph: 2 heads of 4,
 * 3 rows after 2 cached ones; xq "3,n,20", cache "2,n,8", mask bool "n,1,5". ZT_WEIGHTS writes a
 * [2,n,3,5] and kept. */
#ifndef STENO_TESTS_ZIPFORMER_TEXT_H
#define STENO_TESTS_ZIPFORMER_TEXT_H

#define ZT_NUMBERS                                                                                 \
    "fill = -1000; n0 = [0]; n1 = [1]; n2 = [2]; n3 = [3]; n6 = [6]; n8 = [8]; n12 = [12];"        \
    "n16 = [16]; last = [-1]; back = [-2]; big = [9223372036854775807]; P : 2,1,2,7;"              \
    "down = [2,1,0]; up = [0,1,2,3,4]; heads = [2]; flat = [-1,7]; table = [2,-1,3,5];"            \
    "rows = [3,-1,2,4]; keys = [5,-1,2,4]; spots = [3,-1,2,2]; one = [3,-1,1,6]; join = [3,-1,8];" \
    "join6 = [3,-1,6];"

#define ZT_COLUMNS                                                                                 \
    "Slice xq,n0,n8,last,n1 q; Slice xq,n8,n16,n2,n1 k; Slice xq,n16,big,n2,n1 r;"                 \
    "Concat cache,k z axis=0;"

#define ZT_SCORES                                                                                  \
    "Reshape q,rows q4; Transpose q4 qt perm=[2,1,0,3]; Reshape r,spots r4;"                       \
    "Transpose r4 rt perm=[2,1,0,3]; Reshape z,keys k4; Transpose k4 kt perm=[2,1,3,0];"           \
    "MatMul qt,kt s; MatMul rt,P m; Reshape m,flat mr; Shape m sh; Gather sh,n1 nn;"               \
    "Mul nn,heads hn; Tile down,hn ti; Unsqueeze ti,last un; Add un,up ix;"                        \
    "GatherElements mr,ix ge axis=1; Reshape ge,table win; Add s,win sum;"

#define ZT_WEIGHTS                                                                                 \
    ZT_COLUMNS "Slice z,back,big,n0,n1 kept; -> kept;" ZT_SCORES                                   \
               "Where mask,fill,sum w; Softmax w a axis=-1;"

/* A chunk of 4 frames with its gate and activation; x "4,n,16", kept "n,8,3", hidden bool "n,1,4".
 */
#define ZT_CHUNK                                                                                   \
    "zero = 0; plus = 1; inf = inf; slope = 0.08; right = 0.313261687; n0 = [0]; n2 = [2]; n3 = "  \
    "[3];"                                                                                         \
    "n1 = [1]; n8 = [8]; n16 = [16]; last = [-1]; back = [-3]; big = [9223372036854775807];"       \
    "w1 : 8,1,4; b1 : 8; w2 : 8,1,3; b2 : 8; scale : 8,4;"                                         \
    "Slice x,n0,n8,last xa; Slice x,n8,n16,last xb; Sigmoid xb xs; Mul xa,xs xg;"                  \
    "Transpose xg xt perm=[1,2,0]; Where hidden,zero,xt h; Concat kept,h z axis=2;"                \
    "Conv z,w1,b1 c group=8; Slice z,n3,big,n2,n1 p; Conv p,w2,b2 v group=8 pads=[1,1];"           \
    "Mul v,scale g; Add g,c o; Transpose o t perm=[2,0,1]; Slice z,back,big,n2,n1 kept2; -> "      \
    "kept2;"                                                                                       \
    "Sub t,plus u; Exp u e; Add e,plus f; Log f l; Equal l,inf q; Where q,u,l w; Mul t,slope m;"   \
    "Sub w,m r; Sub r,right y; -> y"

/* v [3,n,8]; values [2,n,8] */
#define ZT_VALUES                                                                                  \
    "Concat values,v vz axis=0; Slice vz,back,big,n0,n1 vkept; -> vkept;"                          \
    "Reshape vz,keys v4; Transpose v4 vt perm=[2,1,0,3]; MatMul a,vt y4;"                          \
    "Transpose y4 yt perm=[2,1,0,3]; Reshape yt,join y;"

/* x2 [3,n,18], gates [1,n,2,6] */
#define ZT_NONLIN                                                                                  \
    "Slice a,n0,n1,n0,n1 head; Slice x2,n0,n6,n2 xs; Slice x2,n6,n12,n2 xu; Slice x2,n12,big,n2 "  \
    "xg;"                                                                                          \
    "Tanh xs th; Mul xu,th g0; Reshape g0,one g4; Transpose g4 gt perm=[2,1,0,3];"                 \
    "Concat gates,gt gz axis=2; Slice gz,back,big,n2,n1 gkept; -> gkept; MatMul head,gz p4;"       \
    "Transpose p4 pt perm=[2,1,0,3]; Reshape pt,join6 pj; Mul pj,xg y2;"

#endif
