/* engine/gguf/gguf_foreign.c - recognises files that are not GGUF (archives, old formats, ...), for error
 * messages. */
#include "engine/gguf/gguf.h"

#include "engine/base/utf8.h"

#include <strings.h>

const char *gguf_looks_like(const uint8_t *p, uint64_t n)
{
	/* Magic numbers of old formats. A file may have the four bytes in this order or reversed, in upper or lower
	 * case. */
	static const struct {
		char magic[5];
		const char *what;
	} old[] = {
		{ "GGML", "an old GGML file: convert it to GGUF" },
		{ "GGMF", "an old GGML file (GGMF): convert it to GGUF" },
		{ "GGJT", "an old GGML file (GGJT): convert it to GGUF" },
		{ "GGLA", "a GGML adapter (GGLA), not a model" },
		{ "GGSN", "a saved session (GGSN), not a model" },
	};
	static const struct {
		const char *magic;
		uint8_t at, len;
		const char *what;
	} known[] = {
		{ "FUGG", 0, 4, "a byte-swapped GGUF file" },
		{ "gguf", 0, 4, "a GGUF file with its magic in lower case" },
		{ "PK\3\4", 0, 4, "a zip archive (a wheel, or PyTorch weights): unpack or convert it" },
		{ "\x1f\x8b", 0, 2, "a gzip archive: unpack it first" },
		{ "BZh", 0, 3, "a bzip2 archive: unpack it first" },
		{ "\xfd"
		  "7zXZ",
		  0, 5, "an xz archive: unpack it first" },
		{ "\x28\xb5\x2f\xfd", 0, 4, "a zstd archive: unpack it first" },
		{ "7z\xbc\xaf", 0, 4, "a 7z archive: unpack it first" },
		{ "Rar!", 0, 4, "a rar archive: unpack it first" },
		{ "version https://git-l", 0, 21, "a git-lfs pointer: the model itself was not downloaded" },
		{ "%PDF", 0, 4, "a PDF document" },
		{ "SQLite format 3", 0, 15, "an SQLite database" },
		{ "\x7f"
		  "ELF",
		  0, 4, "a program" },
		{ "MZ", 0, 2, "a Windows program" },
		{ "\x89HDF", 0, 4, "an HDF5 file" },
		{ "\x89PNG", 0, 4, "a PNG image" },
		{ "\x80\2", 0, 2, "a Python pickle: convert it to GGUF" },
		{ "{\"", 8, 2, "a safetensors file: convert it to GGUF" },
		{ "{", 0, 1, "JSON text" },
		{ "#!", 0, 2, "a script" },
	};
	static const char *const html[] = { "<!doctype", "<html", "<head", "<body", "<?xml" };
	uint64_t skip = 0, text = 0;

	for (size_t i = 0; n >= 4 && i < LEN(old); i++) {
		const char *m = old[i].magic, reversed[4] = { m[3], m[2], m[1], m[0] };

		if (!strncasecmp((const char *)p, m, 4) || !strncasecmp((const char *)p, reversed, 4))
			return old[i].what;
	}
	for (size_t i = 0; i < LEN(known); i++)
		if (n >= (uint64_t)known[i].at + known[i].len && !memcmp(p + known[i].at, known[i].magic, known[i].len))
			return known[i].what;
	while (skip < n && skip < 64 && byte_is_xml_blank((char)p[skip]))
		skip++;
	for (size_t i = 0; i < LEN(html); i++)
		if (n - skip >= strlen(html[i]) && !strncasecmp((const char *)p + skip, html[i], strlen(html[i])))
			return "a web page: the download was answered with HTML";
	if (n > 512 && !memcmp(p + 257, "ustar", 5))
		return "a tar archive: unpack it first";
	while (text < n && text < 64 && ((p[text] >= 0x20 && p[text] < 0x7f) || (p[text] >= '\t' && p[text] <= '\r')))
		text++;
	return text == 64 || text == n ? "plain text" : NULL;
}
