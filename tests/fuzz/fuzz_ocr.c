/* tests/fuzz/fuzz_ocr.c - libFuzzer target for weir's own parsers of pictures and of tesseract's output
 * (sessions/import/ocr*.c, picture.c): `make fuzz`, then build/fuzz/fuzz_ocr CORPUS build/fuzz/seeds/ocr.
 *
 * The first byte chooses the input: a TIFF whose pictures are counted, the text that tesseract printed for a page, a
 * file of kept pages, the pages of a document with running heads, or a PDF whose language is looked for. */
#include "sessions/import/ocr.c"
#include "sessions/import/ocr_kept.c"
#include "sessions/import/picture.c"

static void must(int ok)
{
	if (!ok)
		abort();
}

static void page_text(const char *p, size_t n)
{
	struct str raw = { 0 }, text = { 0 };

	str_add(&raw, p, n);
	add_page_text(&raw, &text);
	must(valid_text(str_text(&text), text.n) && text.n <= raw.n && !memchr(str_text(&text), '\f', text.n));
	must(!text.n || (!byte_is_blank(text.p[0]) && !byte_is_blank(text.p[text.n - 1])));
	has_word(str_text(&text), text.n);
	str_free(&raw);
	str_free(&text);
}

static void kept_pages(const char *p, size_t n)
{
	struct ocr_kept k = { 0 };
	struct str text = { 0 };

	str_add(&k.pages, p, n);
	for (int32_t page = 0; page < 4; page++) {
		str_clear(&text);
		if (ocr_kept_get(&k, page, &text))
			must(text.n < n);
	}
	str_free(&k.pages);
	str_free(&text);
}

static void margins(const char *p, size_t n)
{
	struct str page[16] = { 0 }, left_out = { 0 };
	size_t before = 0, after = 0, count = 0;

	for (const char *end = p + n; p < end && count < LEN(page); p++) {
		const char *ff = memchr(p, '\f', (size_t)(end - p));
		str_add(&page[count], p, (size_t)((ff ? ff : end) - p));
		before += page[count++].n;
		p = ff ? ff : end;
	}
	ocr_leave_out_margins(page, count, &left_out);
	for (size_t i = 0; i < count; i++) {
		after += page[i].n;
		str_free(&page[i]);
	}
	must(after <= before);
	str_free(&left_out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* The copy has exactly this size, so that a sanitizer detects a read past its end. */
	char *p = size > 1 ? malloc(size - 1) : NULL, names[OCR_LANGUAGES_MAX];
	struct str note = { 0 }, language = { 0 };
	struct err e = { 0 };
	size_t n = size - 1;

	if (!p)
		return 0;
	memcpy(p, data + 1, n);
	if (data[0] % 5 == 0) {
		int32_t pages = count_pages((const unsigned char *)p, n);
		must(pages > 0 && pages <= PAGES_MAX);
	} else if (data[0] % 5 == 1) {
		page_text(p, n);
	} else if (data[0] % 5 == 2) {
		kept_pages(p, n);
	} else if (data[0] % 5 == 3) {
		margins(p, n);
	} else {
		pdf_language(p, n, &language);
		must(language.n < 16);
		ocr_languages("/nowhere", NULL, str_text(&language), names, &note, &e);
		str_free(&language);
		str_free(&note);
	}
	free(p);
	return 0;
}
