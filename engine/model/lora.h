/* engine/model/lora.h (private to engine/) - LoRA adapters: low-rank changes of weight matrices, computed beside
 * them. */
#ifndef WEIR_LORA_H
#define WEIR_LORA_H

#include "engine/model/weights.h"

/* Load the adapter of a GGUF file (llama.cpp's convert_lora_to_gguf.py writes them) into the layers of a bound model;
 * m->be NULL: check it only. Its changes count `scale` times. On failure model_release() releases what was loaded. */
int lora_load(struct model *m, const char *path, double scale, struct err *);
/* Drop the adapter of a layer. */
void lora_release(struct model *m, struct layer *);

#endif
