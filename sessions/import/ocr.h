/* sessions/import/ocr.h - recognises the text of pictures (OCR) with tesseract, in jailed children, page by page.
 *
 * A page is a picture in a file, or a page of a PDF, which pdftoppm draws. Both programs read bytes that may be
 * hostile, so each page has a time limit. After OCR_LATE_MAX pages have exceeded this limit, the other pages are left
 * out. The texts of recognised pages are stored in a folder (ocr_kept.c). */
#ifndef WEIR_IMPORT_OCR_H
#define WEIR_IMPORT_OCR_H

#include "sessions/import/import_private.h"

#define OCR_LATE_MAX 3

/* ---- ocr_language.c ---- */

enum { OCR_LANGUAGES_MAX = 64 }; /* maximum size in bytes of a list of languages, such as "deu+eng", with its NUL */
/* Find the folder with tesseract's languages: $TESSDATA_PREFIX, or a folder in which packages install them. The caller
 * frees the result; NULL: there is no such folder. */
char *ocr_data_folder(void);
/* Choose the languages to recognise. `said` is the user's choice, such as "deu+eng"; NULL = none. `document` is the
 * language that the document names, such as "de-AT"; "" = none. If tesseract lacks the document's language, *note says
 * which package has it. Returns 0; or -1 if tesseract has no language, or lacks one that the user has chosen, and then
 * *e says what to install. */
int ocr_languages(const char *folder, const char *said, const char *document, char out[OCR_LANGUAGES_MAX],
                  struct str *note, struct err *e);
/* append the names of the installed languages, with blanks between them */
void ocr_languages_installed(const char *folder, struct str *out);

/* ---- ocr_kept.c: recognised pages, kept in a file for each document and way of recognising it ---- */

struct ocr_kept {
	/* the folder of stored pages, and the path of this document's file; NULL: pages are not stored */
	char *folder, *path;
	struct str pages; /* content of the file: one record for each page */
};
/* Read the stored pages of a document. `document` is the SHA-256 of its bytes. `way` is a hash of what determines how
 * its pages are recognised (languages, program). If `folder` is NULL, no pages are stored. */
void ocr_kept_open(struct ocr_kept *, const char *folder, const uint8_t document[32], const uint8_t way[32]);
/* 1 if the text of the page is stored. It is then appended to *out. */
int ocr_kept_get(const struct ocr_kept *, int32_t page, struct str *out);
/* Append a page to the file at once. Errors are ignored. */
void ocr_kept_put(struct ocr_kept *, int32_t page, const struct str *text);
void ocr_kept_close(struct ocr_kept *);

/* ---- ocr.c ---- */

struct ocr {
	/* paths of the two programs (pdftoppm is NULL for a picture), and of tesseract's data folder */
	char *tesseract, *pdftoppm, *folder;
	char languages[OCR_LANGUAGES_MAX];
	int file; /* descriptor of an anonymous file with the document's bytes */
	struct ocr_kept kept;
	int32_t pages, page; /* number of pages to recognise, and how many of them are done */
	int32_t n_late;      /* number of pages that took too long or printed too much */
	int32_t failed;      /* number of the first page that could not be recognised; 0 = there is none */
	char why[160];       /* why that page could not be recognised, as a clause */
	/* number of seconds spent on recognising pages; a page that an earlier import has recognised takes none */
	double seconds;
	int32_t n_timed;
};
/* Prepare to recognise pages of a document. `is_pdf` is 0 for a picture. `pages` says how many pages will be
 * recognised. *note receives notices for the user. Returns 0; or -1 if programs are missing, and then e->msg is a
 * clause that says what to install. */
int ocr_open(struct ocr *, const char *p, size_t n, int is_pdf, int32_t pages, struct str *note, struct err *e);
/* Append the text of a page, numbered from 1. Returns 0 even if the page could not be recognised; then
 * o->failed is set. Returns -1 if the user has stopped the import. */
int ocr_page(struct ocr *o, const char *name, int32_t page, struct str *out, struct err *e);
/* Add a notice about pages that could not be recognised. */
void ocr_note(const struct ocr *, struct doc *);
void ocr_close(struct ocr *);

/* ---- ocr_margins.c ---- */

/* Delete running heads, feet and page numbers from the texts page[0] .. page[n - 1]. An empty text is a page that was
 * not recognised. The deleted lines are appended to *left_out, in the form of doc.left_out. Returns the number of
 * deleted lines. */
size_t ocr_leave_out_margins(struct str *page, size_t n, struct str *left_out);

/* ---- pdf_scan.c ---- */

/* Recognise the pages of a PDF whose marks have the level PAGE_EMPTY or PAGE_UNREADABLE, and put their text into the
 * document. Notices tell what was done, or what to install. Returns 0; or -1 if the user has stopped the import or the
 * document has no text. */
int pdf_recognise(const char *name, const char *p, size_t n, struct doc *, struct err *);

/* ---- picture.c ---- */

/* Recognise a picture. The caller frees *d, even after -1. */
int picture_convert(const char *name, const char *p, size_t n, struct doc *d, struct err *e);

#endif
