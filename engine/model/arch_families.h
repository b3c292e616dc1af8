/* engine/model/arch_families.h (private to engine/model/arch*.c) - the functions of model families.
 *
 * A row of archs[] may name a function that adapts the specs of plain layers to the family (arch.specs in arch.h). This
 * header declares helpers of these functions, and the functions that are defined outside of arch.c. */
#ifndef WEIR_ARCH_FAMILIES_H
#define WEIR_ARCH_FAMILIES_H

#include "engine/model/hparams.h"

/* 1 if a layer has a window. If the file lists the layers with windows, the list decides. Otherwise all layers have
 * windows; but if period > 1, every period-th layer has none. */
int arch_windowed(struct key_reader *, int32_t layer, int32_t period);
/* Set the windows of the layers for which arch_windowed() is 1. The size is the one in the file, or `usual` if the file
 * has none. A size of 0, or of at least the context length in training, means no window. */
int arch_windows(struct hparams *, struct key_reader *, int32_t period, int32_t usual);
/* Check that the numbers of experts in a layer and of experts per token are usable. Return 0, or -1 with the reader's
 * error set. */
int arch_experts_check(const struct hparams *, struct key_reader *);

int arch_gemma(struct hparams *, struct key_reader *);
int arch_gemma2(struct hparams *, struct key_reader *);
int arch_gemma3(struct hparams *, struct key_reader *);
int arch_gemma4(struct hparams *, struct key_reader *);

#endif
