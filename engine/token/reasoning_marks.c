/* engine/token/reasoning_marks.c - the texts before and after a model's reasoning, for each model family
 * (engine_chat.h). */
#include "engine/engine_chat.h"

#include <string.h>

static const struct reasoning_mark marks[] = {
	{ "<think>", "</think>" },                    /* DeepSeek, Qwen, GLM, SmolLM3 and most other families */
	{ CHANNEL_MARK, CHANNEL_END },                /* gpt-oss: see engine.h */
	{ "[THINK]", "[/THINK]" },                    /* Magistral, Ministral */
	{ "<|channel>", "<channel|>" },               /* Gemma 4 */
	{ "<seed:think>", "</seed:think>" },          /* Seed-OSS */
	{ "<|START_THINKING|>", "<|END_THINKING|>" }, /* Command R */
	{ "<|inner_prefix|>", "<|inner_suffix|>" },   /* Apertus */
	{ "<mm:think>", "</mm:think>" },              /* MiniMax M3 */
	{ "<thinking>", "</thinking>" },              /* Apriel */
};

const struct reasoning_mark *reasoning_mark_at(size_t i)
{
	return i < LEN(marks) ? &marks[i] : NULL;
}

int reasoning_has_channels(const struct reasoning_mark *m)
{
	return !strcmp(m->open, CHANNEL_MARK);
}
