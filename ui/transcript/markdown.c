/* ui/transcript/markdown.c - lays out Markdown: splits the text into pieces (markdown_pieces.c), parses each with md4c,
 * and turns md4c's events into lines.
 *
 * It differs from CommonMark on purpose. HTML and link definitions are shown as plain text, because link definitions
 * could hide text, or become much longer text. A blank line is shown exactly where the text has one. A line break after
 * a short line is kept, because models write it on purpose. */
#include "ui/transcript/markdown_private.h"
#include "ui/text/text.h"

#include <stdlib.h>
#include <string.h>

/* ---- events of md4c ---- */

static int md_enter_block(MD_BLOCKTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	build_flush(b);
	switch (type) {
	case MD_BLOCK_QUOTE:
		b->quotes++;
		build_push(b, &(struct level){ .quote = 1, .cols = 2 });
		break;
	case MD_BLOCK_UL:
		if (b->n_list++ < LISTS)
			b->list[b->n_list - 1].ordered = 0;
		break;
	case MD_BLOCK_OL:
		if (b->n_list++ < LISTS) {
			b->list[b->n_list - 1].ordered = 1;
			b->list[b->n_list - 1].next = ((MD_BLOCK_OL_DETAIL *)detail)->start;
			b->list[b->n_list - 1].mark = ((MD_BLOCK_OL_DETAIL *)detail)->mark_delimiter;
		}
		break;
	case MD_BLOCK_LI: build_item(b, detail); break;
	case MD_BLOCK_HR:
		build_bullets(b);
		build_rule(b);
		break;
	case MD_BLOCK_H: b->heading = (int)((MD_BLOCK_H_DETAIL *)detail)->level; break;
	case MD_BLOCK_CODE: {
		const MD_ATTRIBUTE *info = &((MD_BLOCK_CODE_DETAIL *)detail)->info;

		build_bullets(b);
		b->in_code = 1;
		b->para_from = b->l->text.n;
		str_clear(&b->lang);
		str_add(&b->lang, info->size ? info->text : "", build_attribute(b, info));
		piece_unpatch(b->lang.p, b->lang.n);
		b->lang_source = info->size ? build_source(b, info->text) : NO_SOURCE;
		break;
	}
	case MD_BLOCK_TABLE:
		build_bullets(b);
		b->in_table = 1;
		b->table.cols = ((MD_BLOCK_TABLE_DETAIL *)detail)->col_count;
		if (b->table.cols > TABLE_COLUMNS)
			b->table.cols = TABLE_COLUMNS; /* piece_is_hostile() has excluded wider tables */
		b->table.n_cell = b->table.spans.n = 0;
		break;
	case MD_BLOCK_TH:
		b->in_head = 1;
		build_cell(b, detail);
		break;
	case MD_BLOCK_TD: build_cell(b, detail); break;
	default: break;
	}
	return 0;
}

static int md_leave_block(MD_BLOCKTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	switch (type) {
	case MD_BLOCK_CODE:
		build_code(b);
		b->in_code = 0;
		return 0;
	case MD_BLOCK_TH:
	case MD_BLOCK_TD:
		b->in_head = 0;
		build_cell_end(b);
		return 0;
	case MD_BLOCK_TABLE: build_table(b); return 0;
	default: break;
	}
	build_flush(b);
	switch (type) {
	case MD_BLOCK_H: b->heading = 0; break;
	case MD_BLOCK_QUOTE:
		b->quotes--;
		b->n_level--;
		break;
	case MD_BLOCK_LI: build_pop(b); break;
	case MD_BLOCK_UL:
	case MD_BLOCK_OL: b->n_list--; break;
	default: break;
	}
	return 0;
}

static int md_enter_span(MD_SPANTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	switch (type) {
	case MD_SPAN_EM: b->em++; break;
	case MD_SPAN_STRONG: b->strong++; break;
	case MD_SPAN_DEL:
		b->del++;
		build_add_as(b, "~", 1, build_style(b), NO_SOURCE);
		break;
	case MD_SPAN_CODE: b->code++; break;
	case MD_SPAN_A: b->link_from = b->link++ ? SIZE_MAX : b->l->text.n; break;
	case MD_SPAN_IMG:
		b->link_from = SIZE_MAX;
		b->link++;
		build_add_as(b, "image: ", 7, ST_FAINT, NO_SOURCE);
		break;
	default: break;
	}
	return 0;
}

static int md_leave_span(MD_SPANTYPE type, void *detail, void *ud)
{
	struct build *b = ud;

	switch (type) {
	case MD_SPAN_EM: b->em--; break;
	case MD_SPAN_STRONG: b->strong--; break;
	case MD_SPAN_DEL:
		build_add_as(b, "~", 1, build_style(b), NO_SOURCE);
		b->del--;
		break;
	case MD_SPAN_CODE: b->code--; break;
	case MD_SPAN_A:
		b->link--;
		build_add_address(b, &((MD_SPAN_A_DETAIL *)detail)->href, &((MD_SPAN_A_DETAIL *)detail)->title,
		                  b->link_from);
		b->link_from = SIZE_MAX;
		break;
	case MD_SPAN_IMG:
		b->link--;
		build_add_address(b, &((MD_SPAN_IMG_DETAIL *)detail)->src, &((MD_SPAN_IMG_DETAIL *)detail)->title,
		                  SIZE_MAX);
		break;
	default: break;
	}
	return 0;
}

static int md_on_text(MD_TEXTTYPE type, const MD_CHAR *p, MD_SIZE n, void *ud)
{
	struct build *b = ud;
	size_t skip;

	if (!n && type != MD_TEXT_BR && type != MD_TEXT_SOFTBR)
		return 0;
	if (b->in_code) {
		size_t from = b->l->text.n;

		for (size_t left = n, k; left; left -= k + skip, p += k + skip) {
			k = piece_text(&b->piece, p, left, &skip);
			spans_add(b->l, &b->para, p, k, ST_CODE, build_source(b, p));
		}
		if (b->l->text.n > from)
			piece_unpatch(b->l->text.p + from, b->l->text.n - from);
		return 0;
	}
	switch (type) {
	case MD_TEXT_BR:
		build_add_as(b, "\n", 1, build_style(b), NO_SOURCE);
		b->line_cols = 0;
		break;
	case MD_TEXT_SOFTBR: build_soft_break(b); break;
	case MD_TEXT_ENTITY: build_add_entity(b, p, n, build_style(b)); break;
	default:
		build_add(b, p, n, build_style(b));
		n = (MD_SIZE)piece_text(&b->piece, p, n, &skip);
		b->line_cols += n < SHORT_LINE ? (int)text_width(p, n) : SHORT_LINE;
		break;
	}
	return 0;
}

static const MD_PARSER parser = {
	.flags = PARSER_FLAGS,
	.enter_block = md_enter_block,
	.leave_block = md_leave_block,
	.enter_span = md_enter_span,
	.leave_span = md_leave_span,
	.text = md_on_text,
};

/* ---- pieces ---- */

static void plain_piece(struct build *b, size_t from, size_t to)
{
	while (to > from && (b->text[to - 1] == '\n' || b->text[to - 1] == ' '))
		to--;
	for (size_t at = from; at < to;) {
		size_t end = line_end(b->text, to, at);

		if (end > at || at > from) {
			if (at == from)
				build_block(b, (uint32_t)at);
			lines_plain_one(b->l, b->text, at, end, b->width, ST_TEXT);
			b->g->any = 1;
		} else {
			from = at + 1; /* build_block() draws leading blank lines */
		}
		at = end + 1;
	}
	build_shown(b, to);
}

static void markdown_piece(struct build *b, size_t from, size_t to)
{
	if (to > UINT32_MAX / 2 || !lines_room(b->l, (to - from) * 8))
		return;
	if (piece_is_hostile(b->text + from, to - from)) {
		plain_piece(b, from, to);
		return;
	}
	b->shift = from;
	b->end = to;
	piece_copy(&b->piece, b->text + from, to - from);
	b->n_level = b->n_list = b->in_table = b->in_head = b->in_code = 0;
	b->heading = b->quotes = b->strong = b->em = b->del = b->code = b->link = 0;
	b->para.n = 0;
	md_parse(b->piece.p, (MD_SIZE)b->piece.n, &parser, b);
	piece_free(&b->piece);
}

/* ---- fences ---- */

static void open_fence(struct build *b, size_t at, size_t end)
{
	struct growth *g = b->g;
	size_t info, n;

	fence_open(&g->fence, b->text, at, end, &info, &n);
	build_block(b, (uint32_t)at);
	build_code_head(b, b->text + info, n, (uint32_t)info);
	build_shown(b, end);
	g->body = (uint32_t)end + 1;
	build_note_code(b->l, g->body, 0);
}

static void fence_line(struct build *b, size_t at, size_t end)
{
	size_t base = b->l->text.n;

	for (int i = 0; i < b->g->fence.indent && at < end && b->text[at] == ' '; i++)
		at++;
	if (end > UINT32_MAX / 2 || !lines_room(b->l, end - at))
		return;
	str_add(&b->l->text, b->text + at, end - at);
	build_code_line(b, base, base + (end - at), (uint32_t)at);
	build_shown(b, end);
}

static void code_until(struct build *b, size_t at)
{
	if (b->l->n_code)
		b->l->code[b->l->n_code - 1].n = (uint32_t)(at - b->g->body);
}

/* Lay out fenced code from g->done up to its closing fence. Advance g->done past complete lines only. A last line
 * without its newline is laid out, too, but may still change. */
static void fence_body(struct build *b, size_t n)
{
	struct growth *g = b->g;

	while (g->done < n && g->fence.mark) {
		const char *nl = memchr(b->text + g->done, '\n', n - g->done);
		size_t end = nl ? (size_t)(nl - b->text) : n, next = nl ? end + 1 : n;
		struct growth rest = *g;

		if (!nl)
			b->g = &rest;
		if (fence_closes(&g->fence, b->text + g->done, b->text + end)) {
			code_until(b, g->done);
			build_shown(b, end);
			b->g->fence.mark = 0;
		} else {
			fence_line(b, g->done, end);
			code_until(b, next);
		}
		if (!nl)
			break;
		growth_settle(b->l, g, next);
	}
	b->g = g;
}

void lines_grow_markdown(struct lines *l, struct growth *g, const char *text, size_t n, int width)
{
	struct build b = { .l = l, .g = g, .text = text, .width = lines_width(width) };

	growth_begin(l, g);
	while (g->done < n) {
		struct growth rest;
		int whole, fence;
		size_t end;

		if (g->fence.mark) {
			size_t was = g->done;
			b.n_level = 0;
			fence_body(&b, n);
			if (g->fence.mark || g->done == was)
				break;
			continue;
		}
		end = piece_end(text, n, g->done, NULL, &whole, &fence);
		if (fence) {
			end = line_end(text, n, g->done);
			b.n_level = 0;
			open_fence(&b, g->done, end);
			growth_settle(l, g, end + 1);
			continue;
		}
		rest = *g;
		if (!whole)
			b.g = &rest;
		markdown_piece(&b, g->done, end);
		b.g = g;
		if (!whole)
			break;
		growth_settle(l, g, end);
	}
	free(b.para.p);
	free(b.coded.p);
	table_free(&b.table);
	str_free(&b.lang);
}

void lines_markdown(struct lines *l, const char *text, size_t n, int width)
{
	struct growth g = { 0 };

	lines_grow_markdown(l, &g, text, n, width);
}
