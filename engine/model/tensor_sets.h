/* engine/model/tensor_sets.h (private to arch*.c and layer_spec.c) - groups of tensors that layers have together, as
 * bits of enum layer_tensor. */
#ifndef WEIR_TENSOR_SETS_H
#define WEIR_TENSOR_SETS_H

#include "engine/model/arch.h"

#define T(name)       TENSOR_BIT(TENSOR_##name)
#define QKV_BIASES    (T(Q_BIAS) | T(K_BIAS) | T(V_BIAS))
#define QK_NORMS      (T(Q_NORM) | T(K_NORM))
#define ATTENTION     (T(Q) | T(K) | T(V) | T(ATTN_OUT))
#define MATRICES      (ATTENTION | T(GATE) | T(UP) | T(DOWN))
#define EXPERTS       (T(ROUTER) | T(GATE_EXPS) | T(UP_EXPS) | T(DOWN_EXPS))
#define EXPERT_BIASES (T(ROUTER_BIAS) | T(GATE_EXPS_BIAS) | T(UP_EXPS_BIAS) | T(DOWN_EXPS_BIAS))
#define SHORT_CONV    (T(CONV_IN) | T(CONV) | T(CONV_OUT))
#define DELTA                                                                                                          \
	(T(DELTA_IN) | T(DELTA_GATE) | T(DELTA_CONV) | T(DELTA_ALPHA) | T(DELTA_BETA) | T(DELTA_DT) | T(DELTA_DECAY) | \
	 T(DELTA_NORM) | T(DELTA_OUT))
#define SPACE                                                                                                          \
	(T(SPACE_IN) | T(DELTA_CONV) | T(DELTA_DT) | T(SPACE_DECAY) | T(SPACE_SKIP) | T(SPACE_NORM) | T(DELTA_OUT))
#define SHARED         (T(SHARED_GATE) | T(SHARED_UP) | T(SHARED_DOWN) | T(SHARED_ROUTER))
#define BESIDE_EXPERTS (T(DENSE_POST_NORM) | T(EXPERTS_NORM) | T(EXPERTS_POST_NORM))
#define INPUTS         (T(INPUT_GATE) | T(INPUT_OUT) | T(INPUT_NORM))
#define PRE_NORMS      (T(ATTN_NORM) | T(FFN_NORM))
#define POST_NORMS     (T(ATTN_POST_NORM) | T(FFN_POST_NORM))

#endif
