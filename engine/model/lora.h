/* engine/model/lora.h (private to engine/) - LoRA adapters: low-rank changes of weight matrices. */
#ifndef WEIR_LORA_H
#define WEIR_LORA_H

#include "engine/model/weights.h"

/* Load an adapter into the layers of a bound model from a GGUF file, as llama.cpp's convert_lora_to_gguf.py writes
 * it. scale: factor on its changes. m->be = NULL: check only. On failure, model_release() releases what was
 * loaded. */
int lora_load(struct model *m, const char *path, double scale, struct err *);
/* Drop the adapter of a layer. */
void lora_release(struct model *m, struct layer *);

#endif
