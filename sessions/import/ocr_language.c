/* sessions/import/ocr_language.c - chooses the languages that tesseract recognises (ocr.h). Each language is a file
 * NAME.traineddata in a folder. Debian has it in the package tesseract-ocr-NAME. */
#include "sessions/import/ocr.h"
#include "engine/base/utf8.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENDING ".traineddata"

static const char *const data_folders[] = { "/usr/share/tesseract-ocr/5/tessdata",
	                                    "/usr/share/tesseract-ocr/4.00/tessdata", "/usr/share/tessdata",
	                                    "/usr/share/tesseract/tessdata", "/usr/local/share/tessdata" };

char *ocr_data_folder(void)
{
	const char *said = getenv("TESSDATA_PREFIX");
	struct stat st;

	if (said && *said == '/' && !stat(said, &st) && S_ISDIR(st.st_mode))
		return xstrndup(said, strlen(said));
	for (size_t i = 0; i < LEN(data_folders); i++)
		if (!stat(data_folders[i], &st) && S_ISDIR(st.st_mode))
			return xstrndup(data_folders[i], strlen(data_folders[i]));
	return NULL;
}

/* Return the length of the name of a language at s. The name has letters, digits and "_". */
static size_t name_length(const char *s)
{
	size_t n = 0;

	while (byte_is_letter(s[n]) || byte_is_digit(s[n]) || s[n] == '_')
		n++;
	return n;
}

static int is_installed(const char *folder, const char *name, size_t n)
{
	struct str path = { 0 };
	int found;

	str_addf(&path, "%s/%.*s" ENDING, folder, (int)n, name);
	found = !access(path.p, R_OK);
	str_free(&path);
	return found;
}

/* Append the name of the Debian package: "tesseract-ocr-chi-sim". */
static void add_package(struct str *out, const char *name, size_t n)
{
	str_adds(out, "tesseract-ocr-");
	for (size_t i = 0; i < n; i++)
		str_add(out, name[i] == '_' ? "-" : name + i, 1);
}

/* 1 for tesseract's data that are not a language: for the orientation of pages, and for formulas. */
static int is_no_language(const char *name, size_t n)
{
	return (n == 3 && (!memcmp(name, "osd", 3) || !memcmp(name, "equ", 3))) || (n == 4 && !memcmp(name, "snum", 4));
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

void ocr_languages_installed(const char *folder, struct str *out)
{
	struct dirent **entry;
	int n = scandir(folder, &entry, NULL, by_name), some = 0;

	for (int i = 0; i < n; i++) {
		size_t k = name_length(entry[i]->d_name);
		if (k && !strcmp(entry[i]->d_name + k, ENDING) && !is_no_language(entry[i]->d_name, k))
			str_addf(out, "%s%.*s", some++ ? " " : "", (int)k, entry[i]->d_name);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

/* Check the languages that the user names. */
static int check_said(const char *folder, const char *said, char out[OCR_LANGUAGES_MAX], struct err *e)
{
	struct str package = { 0 };

	if (strlen(said) >= OCR_LANGUAGES_MAX)
		return err_set(e, ERR_DOCUMENT, "'%.40s...' names too many languages", said);
	for (const char *p = said;; p++) {
		size_t n = name_length(p);
		if (!n || (p[n] && p[n] != '+'))
			return err_set(e, ERR_DOCUMENT, "'%s' names no languages as tesseract does: 'eng', 'deu+eng'",
			               said);
		if (!is_installed(folder, p, n)) {
			add_package(&package, p, n);
			err_set(e, ERR_DOCUMENT, "install %s: tesseract has no data for the language '%.*s'", package.p,
			        (int)n, p);
			str_free(&package);
			return -1;
		}
		p += n;
		if (!*p)
			break;
	}
	memcpy(out, said, strlen(said) + 1);
	return 0;
}

/* Return tesseract's name for a language tag such as "de-AT"; "" if it has none. */
static const char *name_of_tag(const char *tag)
{
	static const char *const names[] = {
		"af afr", "ar ara", "be bel", "bg bul", "bn ben", "ca cat", "cs ces", "cy cym", "da dan", "de deu",
		"el ell", "en eng", "eo epo", "es spa", "et est", "eu eus", "fa fas", "fi fin", "fr fra", "ga gle",
		"gl glg", "he heb", "hi hin", "hr hrv", "hu hun", "hy hye", "id ind", "is isl", "it ita", "ja jpn",
		"ka kat", "ko kor", "la lat", "lt lit", "lv lav", "mk mkd", "ms msa", "mt mlt", "nl nld", "no nor",
		"nb nor", "nn nor", "pl pol", "pt por", "ro ron", "ru rus", "sk slk", "sl slv", "sq sqi", "sr srp",
		"sv swe", "ta tam", "te tel", "th tha", "tr tur", "uk ukr", "ur urd", "vi vie", "yi yid", "zh chi_sim",
	};
	size_t n = strcspn(tag, "-_");

	if (!strncasecmp(tag, "zh-TW", 5) || !strncasecmp(tag, "zh-HK", 5) || !strncasecmp(tag, "zh-Hant", 7))
		return "chi_tra";
	for (size_t i = 0; i < LEN(names); i++)
		if ((n == 2 && !strncasecmp(tag, names[i], 2)) || (n == 3 && !strncasecmp(tag, names[i] + 3, 3)))
			return names[i] + 3;
	return "";
}

int ocr_languages(const char *folder, const char *said, const char *document, char out[OCR_LANGUAGES_MAX],
                  struct str *note, struct err *e)
{
	const char *name = name_of_tag(document);
	struct str all = { 0 };
	size_t n;

	if (said && *said)
		return check_said(folder, said, out, e);
	if (*name && !is_installed(folder, name, strlen(name))) {
		str_adds(note, "install ");
		add_package(note, name, strlen(name));
		str_addf(note, ": the document's language is '%.15s', for which tesseract has no data", document);
		name = "";
	}
	if (!*name)
		name = "eng";
	ocr_languages_installed(folder, &all);
	if (!is_installed(folder, name, strlen(name)))
		name = str_text(&all);
	n = MIN(strcspn(name, " "), OCR_LANGUAGES_MAX - 1);
	memcpy(out, name, n);
	out[n] = 0;
	str_free(&all);
	return n ? 0 : err_set(e, ERR_DOCUMENT, "install tesseract-ocr-eng: tesseract has no data for any language");
}
