/* engine/model/arch_families.h (private to engine/model/arch*.c) - helpers of the families' functions, and the
 * functions in files of their own. */
#ifndef WEIR_ARCH_FAMILIES_H
#define WEIR_ARCH_FAMILIES_H

#include "engine/model/hparams.h"

/* 1 if a layer has a window. The file may list the layers; otherwise the last layer of each period has none, and with
 * a period of 1 every layer has a window. */
int arch_windowed(struct key_reader *, int32_t layer, int32_t period);
/* Set the window of these layers to the file's, or to `usual` if the file names none; 0 = no window. */
int arch_windows(struct hparams *, struct key_reader *, int32_t period, int32_t usual);
/* Check the number of experts, and of experts per token. */
int arch_experts_check(const struct hparams *, struct key_reader *);

int arch_gemma(struct hparams *, struct key_reader *);
int arch_gemma2(struct hparams *, struct key_reader *);
int arch_gemma3(struct hparams *, struct key_reader *);
int arch_gemma4(struct hparams *, struct key_reader *);

#endif
