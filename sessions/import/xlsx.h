/* sessions/import/xlsx.h - declarations shared by the files that convert Excel workbooks (xlsx*.c). */
#ifndef WEIR_XLSX_H
#define WEIR_XLSX_H

#include "sessions/import/import_private.h"

/* How a number format shows a number. ELAPSED is a time whose hours may exceed 24. */
enum xlsx_look { XLSX_NUMBER, XLSX_PERCENT, XLSX_DATE, XLSX_TIME, XLSX_DATE_TIME, XLSX_ELAPSED };

/* How cells of each style show numbers. */
struct xlsx_styles {
	unsigned char *look; /* look[i] says how cells of style number i show numbers; a value is an enum xlsx_look */
	size_t n, cap;
	struct xlsx_format {
		long id;
		enum xlsx_look look;
	} * format; /* [n_format] number formats that the workbook itself defines */
	size_t n_format, format_cap;
	int in_cells;  /* 1: the element <cellXfs> is being read */
	int from_1904; /* 1: days are counted from 1904-01-01 */
};
/* Read xl/styles.xml. NULL means that the file is missing. */
void xlsx_styles_read(struct xlsx_styles *, const struct zip_entry *);
void xlsx_styles_free(struct xlsx_styles *);
/* Return how a number format shows numbers: "yyyy-mm-dd", "0.00%", "[h]:mm". */
enum xlsx_look xlsx_look_of(const char *format, size_t n);
/* Append a number in the form that its style shows: "2025-03-01", "14:05", "12.5%". `s` is the number as the file
 * stores it. */
void xlsx_number(const struct xlsx_styles *, long style, const char *s, struct str *out);
/* Append the texts of a drawing's shapes, each paragraph as a line, with a blank line after each shape. */
void xlsx_boxes(const struct zip_entry *drawing, struct str *out);
/* Append a string of a cell. In it, "_x000D_" stands for a character that XML cannot contain. */
void xlsx_string(const char *s, size_t n, struct str *out);

#endif
