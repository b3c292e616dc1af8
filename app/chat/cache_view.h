/* app/chat/cache_view.h - gathers what the cache panel shows. Runs in the thread that owns the timeline (the token
 * sequence with its KV cache). */
#ifndef WEIR_CACHE_VIEW_H
#define WEIR_CACHE_VIEW_H

#include "app/conversation/conversation.h"
#include "ui/ui.h"
#include "engine/engine_view.h"

enum { FLOW_KINDS = 3, FLOW_KEPT = UI_FLOWS };

/* Counts the tokens that enter the cache, move in it or are evicted, for the cache panel. `on` is 1 while a panel is
 * shown. */
struct listener {
	int on;
	const struct timeline *tl; /* NULL: the model is on a server */
	double since;              /* time at which the counts in `share` begin */
	/* [enum ui_flow_what]: number of tokens that entered the cache, moved in it or were evicted. A token for which
	 * this happened in only half of the layers and heads counts as 0.5. */
	double share[FLOW_KINDS];
	struct ui_flow flow[FLOW_KEPT];
	int n_flow;
	double lensed; /* time at which the report's lenses (kept and evicted words) were last computed */
};
void listener_on(struct listener *, struct timeline *);
void listener_off(struct listener *, struct timeline *);

/* The kept and evicted words of one text.
 * - If `text` is 0, the text is a document or message: `which`, `span` and `n` are arguments of ui_lens().
 * - If `text` is 1, it is a growing text: `from`, `span` and `n` are arguments of ui_text_lens(). The first range
 *   begins at byte `from`. */
struct lens {
	int which, text;
	size_t from;
	struct ui_span *span;
	size_t n;
};
struct cache_report {
	struct ui_cache cache; /* points into the members below */
	struct cache_view view;
	char kv[128];
	struct str names;          /* names of the documents */
	uint8_t *heat;             /* heat map of the KV cache, [n_layer][cols] */
	char (*text)[UI_COL_TEXT]; /* text shown for each column of the panel's strips */
	struct lens *lens;
	size_t n_lens;
	int lensed; /* 1 = the lenses (kept and evicted words) were computed for this report */
};
struct cache_report *cache_report_new(void);
void cache_report_free(struct cache_report *);
/* Gather a report for the cache panel. The parameter `how` tells what the panel shows:
 * - 0: it is closed, so gather only figures;
 * - 1: also find the evicted words, and the tokens that enter or leave the cache;
 * - 2: also make the heat map.
 * During a prefill, the parameter `read` is the number of tokens prefilled so far; otherwise it is -1. */
void cache_report_take(struct cache_report *, struct conversation *, struct listener *, int how, int32_t read);
/* Set first[i] to the index of document i's first token, or to -1 if the document is not prefilled. */
void cache_report_documents(const struct conversation *, int32_t *first);
/* Append everything that the panel shows, as one JSON object. */
void cache_report_json(const struct cache_report *, struct str *out);

#endif
