/* engine/model/lora.h (private to engine/) - LoRA adapters, which change weight matrices by low-rank products. */
#ifndef WEIR_LORA_H
#define WEIR_LORA_H

#include "engine/model/weights.h"

/* Load an adapter from a GGUF file, in the format of llama.cpp's convert_lora_to_gguf.py, into a model whose weights
 * are loaded. `scale` is a factor on the values that the adapter adds. If m->be is NULL, only check the file. After a
 * failure, model_release() frees the loaded parts of the adapter. */
int lora_load(struct model *m, const char *path, double scale, struct err *);
/* Free the adapter's matrices in one layer. */
void lora_release(struct model *m, struct layer *);

#endif
