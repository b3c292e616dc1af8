/* engine/model/lora.h (private to engine/) - LoRA adapters, which change weight matrices by low-rank products. */
#ifndef WEIR_LORA_H
#define WEIR_LORA_H

#include "engine/model/weights.h"

/* Load an adapter from a GGUF file, as llama.cpp's convert_lora_to_gguf.py writes it, into a model whose weights are
 * loaded. scale: factor on its changes. If m->be is NULL, only check the file. After a failure, model_release()
 * releases what was loaded. */
int lora_load(struct model *m, const char *path, double scale, struct err *);
/* Drop the adapter of a layer. */
void lora_release(struct model *m, struct layer *);

#endif
