/* engine/model/arch_families.h (private to engine/model/arch*.c) - what families of models need beside their table
 * entries.
 *
 * A family may have a function that changes the specs of plain layers to its own (arch.specs in arch.h). Here are the
 * helpers of these functions, and the functions that are not in arch.c. */
#ifndef WEIR_ARCH_FAMILIES_H
#define WEIR_ARCH_FAMILIES_H

#include "engine/model/hparams.h"

/* 1 if a layer has a window. The file may list the layers with windows. If it does not, every period-th layer has no
 * window; if period is 1, all layers have windows. */
int arch_windowed(struct key_reader *, int32_t layer, int32_t period);
/* Set the windows of the layers for which arch_windowed() is 1: to the file's size, or to `usual` if the file has none.
 * A size of 0, or of at least the context length in training, means no window. */
int arch_windows(struct hparams *, struct key_reader *, int32_t period, int32_t usual);
/* Check the number of experts, and of experts per token. */
int arch_experts_check(const struct hparams *, struct key_reader *);

int arch_gemma(struct hparams *, struct key_reader *);
int arch_gemma2(struct hparams *, struct key_reader *);
int arch_gemma3(struct hparams *, struct key_reader *);
int arch_gemma4(struct hparams *, struct key_reader *);

#endif
