/* tests/sessions/t_import_foreign.c - formats that are not read are refused with the name of a converter. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <string.h>

static void refused_bytes(const char *name, const char *p, size_t n, const char *want)
{
	struct doc d;
	struct err e = { 0 };
	struct str said = { 0 };

	CHECK(doc_decode(name, p, n, &d, &e) < 0);
	str_addf(&said, "document '%s' is %s", name, want);
	CHECK_STR(e.msg, said.p);
	str_free(&said);
}

#define REFUSED(name, bytes, want) refused_bytes(name, bytes, sizeof bytes - 1, want)

/* Check the refusal of a compound file: 512 bytes of header, then a directory with the root and these streams. */
static void compound(const char *name, const char *const *streams, const char *want)
{
	char file[512 + 8 * 128] = "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", *entry = file + 512;

	for (; *streams; streams++) {
		size_t n = strlen(*streams);

		entry += 128;
		for (size_t i = 0; i < n; i++)
			entry[2 * i] = (*streams)[i];
		entry[64] = (char)(2 * (n + 1));
		entry[66] = 2;
	}
	refused_bytes(name, file, sizeof file, want);
}

#define COMPOUND(name, want, ...) compound(name, (const char *const[]){ __VA_ARGS__, NULL }, want)

TEST(old_office_files)
{
	COMPOUND("a.xls", "an Excel workbook of the old format: convert it with 'soffice --convert-to xlsx FILE'",
	         "Workbook");
	COMPOUND("a.xls", "an Excel workbook of the old format: convert it with 'soffice --convert-to xlsx FILE'",
	         "Book", "WordDocument");
	COMPOUND("a.doc", "a Word document of the old format: convert it with 'soffice --convert-to docx FILE'", "Data",
	         "WordDocument", "Workbook");
	COMPOUND("a.ppt",
	         "a PowerPoint presentation of the old format: convert it with 'soffice --convert-to pptx FILE'",
	         "PowerPoint Document");
	COMPOUND("a.msg", "a mail of Outlook: convert it with 'msgconvert FILE'", "__properties_version1.0");
	COMPOUND("a.docx", "encrypted: its text cannot be read without the password", "EncryptionInfo",
	         "EncryptedPackage");
	COMPOUND("a.xlsx", "encrypted: its text cannot be read without the password", "EncryptedPackage");
	COMPOUND("a", "an old Office file: convert it with 'soffice --convert-to pdf FILE'", "Workbooks", "Boo");
	REFUSED("a.doc", "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
	        "an old Office file: convert it with 'soffice --convert-to pdf FILE'");
}

TEST(office_files_in_xml)
{
	REFUSED("a.xml",
	        "<?xml version='1.0'?>\n<?mso-application progid=\"Word.Document\"?><w:wordDocument><w:t>The bridge</w:t></w:wordDocument>",
	        "a Word document in XML: convert it with 'soffice --convert-to docx FILE'");
	REFUSED("b.xml",
	        "<pkg:package xmlns:pkg=\"http://schemas.microsoft.com/office/2006/xmlPackage\"><pkg:part/></pkg:package>",
	        "an Office document in XML: convert it with 'soffice --convert-to pdf FILE'");
	REFUSED("a.fodt",
	        "<?xml version='1.0'?><office:document xmlns:office='x'><text:p>The bridge</text:p></office:document>",
	        "an OpenDocument file in XML: convert it with 'soffice --convert-to odt FILE'");
}

TEST(archives)
{
	static const char formula[] = "mimetypeapplication/vnd.oasis.opendocument.formula";
	char tar[512] = "a.txt", odf[128] = "PK\3\4";

	REFUSED("a.xlsb", "PK\3\4 [Content_Types].xml xl/workbook.bin",
	        "a binary Excel workbook (.xlsb): convert it with 'soffice --convert-to xlsx FILE'");
	REFUSED("a.pages", "PK\3\4 Index/Document.iwa",
	        "a document of Pages, Numbers or Keynote: convert it with 'soffice --convert-to pdf FILE'");
	REFUSED("a.xps", "PK\3\4 FixedDocumentSequence.fdseq", "an XPS document: convert it with 'xpstopdf FILE'");
	REFUSED("a", "PK\3\4 [Content_Types].xml",
	        "an Office file without text, sheets and slides: convert it with 'soffice --convert-to pdf FILE'");
	REFUSED("a", "PK\3\4", "a zip archive: unpack it first");
	memcpy(odf + 30, formula, sizeof formula);
	refused_bytes("a.odf", odf, sizeof odf, "an OpenDocument formula, chart or database, not a text");
	memcpy(tar + 257, "ustar\00000", 8);
	refused_bytes("a.tar", tar, sizeof tar, "a tar archive: unpack it first");
	REFUSED("a.rar", "Rar!\x1a\7\1", "a RAR archive: unpack it first");
	REFUSED("a.bz2", "BZh91AY&SY.", "compressed (bzip2): unpack it first");
	REFUSED("a.deb", "!<arch>\ndebian", "an archive (ar): unpack it first");
}

TEST(books_and_pages)
{
	char mobi[80] = "Book";

	memcpy(mobi + 60, "BOOKMOBI", 8);
	refused_bytes("a.azw", mobi, sizeof mobi,
	              "a Mobipocket or Kindle e-book: convert it with 'ebook-convert FILE book.epub' (of calibre)");
	REFUSED("a.ps", "%!PS-Adobe-3.0\n", "a PostScript file: convert it with 'ps2pdf FILE'");
	REFUSED("a.djvu", "AT&TFORM....", "a DjVu file: convert it with 'djvutxt FILE'");
	REFUSED("a.db", "SQLite format 3\0...", "an SQLite database: 'sqlite3 FILE .dump' prints its tables");
	REFUSED("a.gguf", "GGUF\3", "a model (GGUF), not a document: use -m to choose a model");
	REFUSED("a",
	        "\x7f"
	        "ELF..",
	        "a program, not a text");
}

TEST(sounds_films_and_pictures)
{
#define HEARD ": transcribe it, as 'whisper FILE' does"
	REFUSED("a.mp3", "ID3\4....", "a sound (MP3)" HEARD);
	REFUSED("a.wav", "RIFF\1\2\3\4WAVEfmt ", "a sound (WAVE)" HEARD);
	REFUSED("a.flac", "fLaC\0\0\0\x22", "a sound (FLAC)" HEARD);
	REFUSED("a.ogg", "OggS\0\2", "a sound or film (Ogg)" HEARD);
	REFUSED("a.m4a",
	        "\0\0\0\x1c"
	        "ftypM4A ",
	        "a sound or film (MP4)" HEARD);
	REFUSED("a.heic",
	        "\0\0\0\x1c"
	        "ftypheic",
	        "a picture (HEIF): convert it with 'magick FILE picture.png'");
	REFUSED("a.gif", "GIF89a", "a picture (GIF): convert it with 'magick FILE picture.png'");
	REFUSED("a.mid", "MThd\0\0\0\6", "a piece of music (MIDI), not a text");
}

/* Texts whose first words look like the first bytes of a file that is refused. They are read. */
TEST(texts)
{
	static const char *const texts[] = { "BZh is the sign of bzip2.",
		                             "ID3 tags are at the beginning.",
		                             "GIF8 and more",
		                             "RIFFRAFF, WAVES",
		                             "PKZIP",
		                             "OggSpeech",
		                             "Range!",
		                             "II* means two",
		                             "%! is no PS" };
	struct doc d;
	struct err e = { 0 };

	for (size_t i = 0; i < LEN(texts); i++) {
		CHECK_MSG(!doc_decode("a", texts[i], strlen(texts[i]), &d, &e), "%s", e.msg);
		CHECK_STR(str_text(&d.text), texts[i]);
		doc_free(&d);
	}
}
