/* sessions/import/foreign.c - recognises files of formats that are not read. A file is recognised by its first bytes
 * or, if it is a container, by its entries. The user gets advice such as the name of a converter. */
#include "sessions/import/import_private.h"

#include <string.h>

enum where {
	FIRST, /* the string `bytes` is at offset `at` of the file */
	XML,   /* the string `bytes` occurs in the first XML_HEAD bytes of a file that begins with '<' */
	/* the string `bytes` is the name of a stream of a compound file (the container of old Office programs) */
	STREAM,
	ENTRY, /* the string `bytes` is the name of an entry of a zip archive */
};

enum { XML_HEAD = 1024 };

struct foreign {
	enum where where;
	uint16_t at; /* if `where` is FIRST: offset in the file at which `bytes` must be */
	uint8_t n;
	const char *bytes;  /* the bytes or the name to find; `where` says which; '?' stands for any byte */
	const char *what;   /* words that complete the sentence "document NAME is ..." */
	const char *advice; /* advice what to do with the file; NULL: it cannot be converted to text */
};

#define SOFFICE(to) "convert it with 'soffice --convert-to " to " FILE'"
#define EBOOK       "convert it with 'ebook-convert FILE book.epub' (of calibre)"
#define TRANSCRIBE  "transcribe it, as 'whisper FILE' does"
#define PNG         "convert it with 'magick FILE picture.png'"
#define UNPACK      "unpack it first"
#define ROW(bytes)  sizeof bytes - 1, bytes
#define COMPOUND    "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
#define ZIP         "PK\3\4"

/* If several rows with the same `where` match a file, the first of them is used. */
/* clang-format off */
static const struct foreign foreigns[] = {
	{ STREAM, 0, ROW("EncryptedPackage"), "encrypted", "its text cannot be read without the password" },
	{ STREAM, 0, ROW("WordDocument"), "a Word document of the old format", SOFFICE("docx") },
	{ STREAM, 0, ROW("Workbook"), "an Excel workbook of the old format", SOFFICE("xlsx") },
	{ STREAM, 0, ROW("Book"), "an Excel workbook of the old format", SOFFICE("xlsx") },
	{ STREAM, 0, ROW("PowerPoint Document"), "a PowerPoint presentation of the old format", SOFFICE("pptx") },
	{ STREAM, 0, ROW("VisioDocument"), "a Visio drawing", SOFFICE("pdf") },
	{ STREAM, 0, ROW("__properties_version1.0"), "a mail of Outlook", "convert it with 'msgconvert FILE'" },
	{ STREAM, 0, ROW("FileHeader"), "a Hangul document", "convert it with 'hwp5txt FILE'" },
	{ FIRST, 0, ROW(COMPOUND), "an old Office file", SOFFICE("pdf") },

	{ FIRST, 30, ROW("mimetypeapplication/vnd.oasis.opendocument"), "an OpenDocument formula, chart or database", NULL },
	{ ENTRY, 0, ROW("xl/workbook.bin"), "a binary Excel workbook (.xlsb)", SOFFICE("xlsx") },
	{ ENTRY, 0, ROW("visio/document.xml"), "a Visio drawing", SOFFICE("pdf") },
	{ ENTRY, 0, ROW(".fdseq"), "an XPS document", "convert it with 'xpstopdf FILE'" },
	{ ENTRY, 0, ROW("[Content_Types].xml"), "an Office file without text, sheets and slides", SOFFICE("pdf") },
	{ ENTRY, 0, ROW("Index/Document.iwa"), "a document of Pages, Numbers or Keynote", SOFFICE("pdf") },
	{ ENTRY, 0, ROW("META-INF/MANIFEST.MF"), "a program (Java)", NULL },
	{ FIRST, 0, ROW(ZIP), "a zip archive", UNPACK },

	{ XML, 0, ROW("progid=\"Word.Document\""), "a Word document in XML", SOFFICE("docx") },
	{ XML, 0, ROW("progid=\"Excel.Sheet\""), "an Excel workbook in XML", SOFFICE("xlsx") },
	{ XML, 0, ROW("progid=\"PowerPoint.Show\""), "a PowerPoint presentation in XML", SOFFICE("pptx") },
	{ XML, 0, ROW("http://schemas.microsoft.com/office/2006/xmlPackage"), "an Office document in XML", SOFFICE("pdf") },
	{ XML, 0, ROW("<office:document "), "an OpenDocument file in XML", SOFFICE("odt") },

	{ FIRST, 0, ROW("%!PS"), "a PostScript file", "convert it with 'ps2pdf FILE'" },
	{ FIRST, 0, ROW("\xc5\xd0\xd3\xc6"), "a PostScript file", "convert it with 'ps2pdf FILE'" },
	{ FIRST, 0, ROW("AT&TFORM"), "a DjVu file", "convert it with 'djvutxt FILE'" },
	{ FIRST, 60, ROW("BOOKMOBI"), "a Mobipocket or Kindle e-book", EBOOK },
	{ FIRST, 60, ROW("TEXtREAd"), "a Palm e-book", EBOOK },
	{ FIRST, 0, ROW("ITOLITLS"), "a Microsoft Reader e-book", EBOOK },
	{ FIRST, 0, ROW("ITSF\3\0\0\0"), "a help file (CHM)", EBOOK },
	{ FIRST, 0, ROW("\xffWPC"), "a WordPerfect document", SOFFICE("docx") },
	{ FIRST, 0, ROW("x\x9f>\""), "an attachment of Outlook (TNEF)", "unpack it with 'tnef FILE'" },
	{ FIRST, 0, ROW("SQLite format 3\0"), "an SQLite database", "'sqlite3 FILE .dump' prints its tables" },
	{ FIRST, 0, ROW("GGUF"), "a model (GGUF), not a document", "use -m to choose a model" },
	{ FIRST, 0, ROW("\0\0\xfe\xff"), "UTF-32 text", "convert it with 'iconv -f UTF-32 -t UTF-8 FILE'" },
	{ FIRST, 0, ROW("\xff\xfe\0\0"), "UTF-32 text", "convert it with 'iconv -f UTF-32 -t UTF-8 FILE'" },

	{ FIRST, 0, ROW("ID3\2"), "a sound (MP3)", TRANSCRIBE },
	{ FIRST, 0, ROW("ID3\3"), "a sound (MP3)", TRANSCRIBE },
	{ FIRST, 0, ROW("ID3\4"), "a sound (MP3)", TRANSCRIBE },
	{ FIRST, 0, ROW("RIFF????WAVE"), "a sound (WAVE)", TRANSCRIBE },
	{ FIRST, 0, ROW("fLaC\0"), "a sound (FLAC)", TRANSCRIBE },
	{ FIRST, 0, ROW("OggS\0"), "a sound or film (Ogg)", TRANSCRIBE },
	{ FIRST, 0, ROW("#!AMR\n"), "a sound (AMR)", TRANSCRIBE },
	{ FIRST, 0, ROW("0&\xb2\x75\x8e\x66\xcf\x11"), "a sound or film (ASF)", TRANSCRIBE },
	{ FIRST, 0, ROW("RIFF????AVI "), "a film (AVI)", TRANSCRIBE },
	{ FIRST, 0, ROW("\x1a\x45\xdf\xa3"), "a film (Matroska)", TRANSCRIBE },
	{ FIRST, 0, ROW("FLV\1"), "a film (FLV)", TRANSCRIBE },
	{ FIRST, 0, ROW("\0\0\1\xba"), "a film (MPEG)", TRANSCRIBE },
	{ FIRST, 0, ROW("\0\0\0?ftyphei"), "a picture (HEIF)", PNG },
	{ FIRST, 0, ROW("\0\0\0?ftypmif1"), "a picture (HEIF)", PNG },
	{ FIRST, 0, ROW("\0\0\0?ftypavif"), "a picture (AVIF)", PNG },
	{ FIRST, 0, ROW("\0\0\0?ftyp"), "a sound or film (MP4)", TRANSCRIBE },
	{ FIRST, 0, ROW("MThd\0\0\0\6"), "a piece of music (MIDI)", NULL },

	{ FIRST, 0, ROW("GIF87a"), "a picture (GIF)", PNG },
	{ FIRST, 0, ROW("GIF89a"), "a picture (GIF)", PNG },
	{ FIRST, 0, ROW("RIFF????WEBP"), "a picture (WebP)", PNG },

	{ FIRST, 0, ROW("BZh?1AY&SY"), "compressed (bzip2)", UNPACK },
	{ FIRST, 0, ROW("\xfd" "7zXZ\0"), "compressed (xz)", UNPACK },
	{ FIRST, 0, ROW("\x28\xb5\x2f\xfd"), "compressed (zstd)", UNPACK },
	{ FIRST, 0, ROW("\x04\x22\x4d\x18"), "compressed (lz4)", UNPACK },
	{ FIRST, 0, ROW("LZIP\1"), "compressed (lzip)", UNPACK },
	{ FIRST, 0, ROW("\x1f\x9d\x90"), "compressed (compress)", UNPACK },
	{ FIRST, 257, ROW("ustar\0"), "a tar archive", UNPACK },
	{ FIRST, 257, ROW("ustar  \0"), "a tar archive", UNPACK },
	{ FIRST, 0, ROW("7z\xbc\xaf\x27\x1c"), "a 7z archive", UNPACK },
	{ FIRST, 0, ROW("Rar!\x1a\7"), "a RAR archive", UNPACK },
	{ FIRST, 0, ROW("MSCF\0\0\0\0"), "a cabinet archive", UNPACK },
	{ FIRST, 0, ROW("!<arch>\n"), "an archive (ar)", UNPACK },

	{ FIRST, 0, ROW("\x7f" "ELF"), "a program", NULL },
	{ FIRST, 0, ROW("MZ\x90\0"), "a program", NULL },
};
/* clang-format on */

static int begins(const struct foreign *f, const char *p, size_t n)
{
	if (n < (size_t)f->at + f->n)
		return 0;
	for (size_t i = 0; i < f->n; i++)
		if (f->bytes[i] != '?' && f->bytes[i] != p[f->at + i])
			return 0;
	return 1;
}

/* 1 if an entry of a compound file's directory is a stream whose name is f->bytes. An entry has 128 bytes. It begins
 * with the name in UTF-16, which ends with a NUL. Byte 64 is the length of the name in bytes. Byte 66 is the kind of
 * the entry: 2 for a stream. */
static int is_stream(const struct foreign *f, const char *entry)
{
	if (f->where != STREAM || entry[66] != 2 || (unsigned char)entry[64] != 2 * (f->n + 1) || entry[65])
		return 0;
	for (size_t i = 0; i < f->n; i++)
		if (entry[2 * i] != f->bytes[i] || entry[2 * i + 1])
			return 0;
	return 1;
}

/* Find the first stream in a compound file whose name is in foreigns[], and return its row. The streams of embedded
 * documents come later in the directory. */
static const struct foreign *by_stream(const char *p, size_t n)
{
	for (size_t at = 512; at + 128 <= n; at += 128)
		for (size_t i = 0; i < LEN(foreigns); i++)
			if (is_stream(&foreigns[i], p + at))
				return &foreigns[i];
	return NULL;
}

static const struct foreign *by_entry(const char *p, size_t n)
{
	for (size_t i = 0; i < LEN(foreigns); i++)
		if (foreigns[i].where == ENTRY && memmem(p, n, foreigns[i].bytes, foreigns[i].n))
			return &foreigns[i];
	return NULL;
}

static const struct foreign *by_xml(const char *p, size_t n)
{
	if (!n || *p != '<')
		return NULL;
	for (size_t i = 0; i < LEN(foreigns); i++)
		if (foreigns[i].where == XML && memmem(p, MIN(n, XML_HEAD), foreigns[i].bytes, foreigns[i].n))
			return &foreigns[i];
	return NULL;
}

static const struct foreign *by_beginning(const char *p, size_t n)
{
	for (size_t i = 0; i < LEN(foreigns); i++)
		if (foreigns[i].where == FIRST && begins(&foreigns[i], p, n))
			return &foreigns[i];
	return NULL;
}

int foreign_why(const char *p, size_t n, struct str *why)
{
	const struct foreign *f = by_beginning(p, n), *inside = NULL;

	if (f && !strcmp(f->bytes, COMPOUND))
		inside = by_stream(p, n);
	else if (f && !strcmp(f->bytes, ZIP))
		inside = by_entry(p, n);
	else if (!f)
		inside = by_xml(p, n);
	f = inside ? inside : f;
	if (!f)
		return 0;
	str_addf(why, "is %s%s%s", f->what, f->advice ? ": " : ", not a text", f->advice ? f->advice : "");
	return 1;
}
