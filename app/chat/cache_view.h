/* app/chat/cache_view.h - what the cache panel shows, gathered in the thread that owns the timeline. */
#ifndef WEIR_CACHE_VIEW_H
#define WEIR_CACHE_VIEW_H

#include "app/conversation/conversation.h"
#include "ui/ui.h"
#include "engine/engine_view.h"

enum { FLOW_KINDS = 3, FLOW_KEPT = UI_FLOWS };

/* Counts of slots admitted, moved and evicted between two reports; on only while a panel is shown. */
struct listener {
	int on;
	const struct timeline *tl; /* NULL: the model is on a server */
	double since;              /* time at which the counts below begin */
	/* Tokens; a token that half of the layers and heads moved counts half. */
	double share[FLOW_KINDS];
	struct ui_flow flow[FLOW_KEPT];
	int n_flow;
	double lensed; /* time at which the lenses were made last */
};
void listener_on(struct listener *, struct timeline *);
void listener_off(struct listener *, struct timeline *);

/* A lens as ui_lens() takes it; if text is set, as ui_text_lens() takes it, from byte `from` on. */
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
	uint8_t *heat;             /* [n_layer][cols] */
	char (*text)[UI_COL_TEXT]; /* [cols] */
	struct lens *lens;
	size_t n_lens;
	int lensed; /* the lenses are new in this report */
};
struct cache_report *cache_report_new(void);
void cache_report_free(struct cache_report *);
/* Gather a report. how: 0 = what the panel remembers while it is closed, 1 = the bar, 2 = everything. read: tokens
 * prefilled so far while a prefill runs, when the sequence already has its final length; else -1. The lenses are made
 * at most once a second. */
void cache_report_take(struct cache_report *, struct conversation *, struct listener *, int how, int32_t read);
/* first[n_doc]: the index of each document's first token; -1 = the document is not prefilled. */
void cache_report_documents(const struct conversation *, int32_t *first);
/* Append everything that the panel shows, as one JSON object. */
void cache_report_json(const struct cache_report *, struct str *out);

#endif
