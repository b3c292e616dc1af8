/* app/chat/cache_view.h - what the cache panel shows, gathered in the thread that owns the timeline. */
#ifndef WEIR_CACHE_VIEW_H
#define WEIR_CACHE_VIEW_H

#include "app/conversation/conversation.h"
#include "ui/ui.h"

enum { FLOW_KINDS = 3, FLOW_KEPT = UI_FLOWS };

/* Counts slots admitted, moved and evicted between two reports; on only while a panel is shown. */
struct listener {
	int on;
	const struct timeline *tl; /* NULL: the model is on a server */
	double since;              /* the rates below are counted from here */
	/* tokens; a token that half of the pairs of layer and head moved counts half */
	double share[FLOW_KINDS];
	struct ui_flow flow[FLOW_KEPT];
	int n_flow;
	double lensed; /* when the lenses were made last */
};
void listener_on(struct listener *, struct timeline *);
void listener_off(struct listener *, struct timeline *);

/* As ui_lens() wants it; text: as ui_text_lens() does, from byte `from` on. */
struct lens {
	int which, text;
	size_t from;
	struct ui_span *span;
	size_t n;
};
struct cache_report {
	struct ui_cache cache; /* points into what follows */
	struct cache_view view;
	char kv[128];
	struct str names;          /* of documents */
	uint8_t *heat;             /* [n_layer][cols] */
	char (*text)[UI_COL_TEXT]; /* [cols] */
	struct lens *lens;
	size_t n_lens;
	int lensed; /* the lenses are new */
};
struct cache_report *cache_report_new(void);
void cache_report_free(struct cache_report *);
/* how: 0 what the panel remembers while it is closed, 1 the bar, 2 all. read: tokens prefilled so far while a
 * prefill runs (the sequence has its final length then), else -1. The lenses, which mark evicted words, are made
 * once a second. */
void cache_report_take(struct cache_report *, struct conversation *, struct listener *, int how, int32_t read);
/* The index of the first token of each document, -1 = the document is not prefilled: first[n_doc]. */
void cache_report_documents(const struct conversation *, int32_t *first);
/* Everything that the panel shows as one JSON object. */
void cache_report_json(const struct cache_report *, struct str *out);

#endif
