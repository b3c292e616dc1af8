/* engine/model/arch_families.h (private to engine/model/arch*.c) - what the functions of families share, and those that
 * have a file of their own. */
#ifndef WEIR_ARCH_FAMILIES_H
#define WEIR_ARCH_FAMILIES_H

#include "engine/model/hparams.h"

/* Does a layer have a window? A file may say it for each layer; otherwise all layers of a period but its last one have
 * a window, and with a period of 1 all layers. */
int arch_windowed(struct key_reader *, int32_t layer, int32_t period);
/* Give these layers the file's window, or the usual one where the file has none; 0 = none. */
int arch_windows(struct hparams *, struct key_reader *, int32_t period, int32_t usual);
int arch_experts_check(const struct hparams *, struct key_reader *);

int arch_gemma(struct hparams *, struct key_reader *);
int arch_gemma2(struct hparams *, struct key_reader *);
int arch_gemma3(struct hparams *, struct key_reader *);
int arch_gemma4(struct hparams *, struct key_reader *);

#endif
