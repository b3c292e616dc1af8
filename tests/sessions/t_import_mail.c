/* tests/sessions/t_import_mail.c - mail: headers, transfer encodings, a text as plain text and as HTML, quotations,
 * attachments, mailboxes. */
#include "sessions/import/mime.h"
#include "tests/lib/test.h"

#include <stdlib.h>
#include <string.h>

static void becomes(const char *name, const char *s, const char *want, const char *note)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, s, strlen(s), &d, &e), "%s", e.msg);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), note);
	CHECK_INT(d.type, DOC_MAIL);
	doc_free(&d);
}

#define HEAD                                                                                                           \
	"Message-ID: <1@x>\r\nFrom: =?iso-8859-1?Q?J=F6rg_Alt?= <j@x>\r\nTo: b@x\r\nSubject: =?utf-8?B?R3LDvMM=?=\r\n =?utf-8?B?n2U=?= =?utf-8?q?_5?=\r\nX: y\r\n"
#define SHOWN "Grüße 5\n\nFrom: Jörg Alt <j@x>\nTo: b@x\n\n"

TEST(headers_and_encodings)
{
	becomes("a.eml", HEAD "\r\nplain\r\n", SHOWN "plain", "");
	becomes("standard input", HEAD "\r\nplain\r\n", SHOWN "plain", "");
	becomes("a.eml",
	        HEAD
	        "Content-Type: text/plain; charset=\"windows-1251\"\r\nContent-Transfer-Encoding: base64\r\n\r\nz/Do\r\n4uXy\r\n",
	        SHOWN "Привет", "");
	becomes("a.eml", HEAD "Content-Transfer-Encoding: quoted-printable\r\n\r\na =3D b=\r\n c =C3=A9 = =zz\r\n",
	        SHOWN "a = b c é = =zz", "");
	becomes("a.eml", "From: a\n\ncaf\xe9\n", "(no subject)\n\nFrom: a\n\ncafé", "");
	becomes("a.emlx", "40        \nFrom: a\nSubject: s\n\nx\n", "s\n\nFrom: a\n\nx", "");
}

#define MULTI(kind, parts)                                                                                             \
	HEAD "Content-Type: multipart/" kind "; boundary=\"--b\"\r\n\r\npreamble\r\n" parts "----b--\r\nepilogue\r\n"
#define PART(head, body) "----b\r\n" head "\r\n\r\n" body "\r\n"

TEST(forms_of_a_text)
{
	becomes("a.eml",
	        MULTI("alternative", PART("Content-Type: text/plain", "The plain form.")
	                                     PART("Content-Type: text/html", "<p>The HTML form, a bit longer")),
	        SHOWN "The plain form.", "");
	becomes("a.eml",
	        MULTI("alternative",
	              PART("Content-Type: text/plain", "See HTML.") PART(
			      "Content-Type: text/html; charset=iso-8859-15",
			      "<h2>Offer</h2><table><tr><td>Pump<td>88,20 \xa4</table><blockquote>asked<br>twice<blockquote>first</blockquote></blockquote>and an answer of some length")),
	        SHOWN "Offer\n\nPump | 88,20 €\n\n> asked\n> twice\n\n> > first\n\nand an answer of some length", "");
	becomes("a.eml",
	        MULTI("related", PART("Content-Type: text/html", "<p>one") PART("Content-Type: image/png", "x")),
	        SHOWN "one", "");
	becomes("a.eml", MULTI("signed", PART("", "text") PART("Content-Type: application/pgp-signature", "x")),
	        SHOWN "text", "");
	becomes("a.eml", MULTI("encrypted", PART("", "Version: 1")), "Grüße 5\n\nFrom: Jörg Alt <j@x>\nTo: b@x",
	        "1 part is encrypted and was left out\n");
}

TEST(attachments)
{
	becomes("a.eml",
	        MULTI("mixed",
	              PART("", "See below.") PART(
			      "Content-Type: application/pdf; name=a.pdf\r\nContent-Disposition: attachment; filename*=utf-8''Pr%C3%BCfung.pdf",
			      "x") PART("Content-Disposition: attachment;\r\n filename=\"b; c.txt\"", "text")
	                      PART("Content-Type: message/rfc822", "Subject: inner\r\n\r\nforwarded")),
	        SHOWN "See below.\n\ninner\n\nforwarded\n\nAttachments: Prüfung.pdf, b; c.txt",
	        "2 attachments were left out: Prüfung.pdf, b; c.txt\n");
	becomes("a.eml", HEAD "\r\na\r\n\r\nbegin 644 x.bin\r\n#86)C\r\n`\r\nend\r\nb\r\n",
	        SHOWN "a\n\nb\n\nAttachments: x.bin", "1 attachment was left out: x.bin\n");
	/* an attachment without a name is named by its type, even if the type is not valid UTF-8 */
	becomes("a.eml", MULTI("mixed", PART("", "a") PART("Content-Type: \xd8x/y", "b")),
	        SHOWN "a\n\nAttachments: Øx/y", "1 attachment was left out: Øx/y\n");
}

TEST(quotations)
{
	becomes("a.eml", HEAD "\r\nAnn wrote:\r\n> old\r\n>> older\r\nnew\r\n> \r\nend\r\n",
	        SHOWN "Ann wrote:\n\n> old\n\n>> older\n\nnew\n\nend", "");
	becomes("a.eml",
	        HEAD
	        "Content-Type: text/plain; format=flowed\r\n\r\none \r\ntwo\r\n> three \r\n> four\r\n-- \r\nAnn\r\n",
	        SHOWN "one two\n\n> three four\n\n-- \nAnn", "");
}

TEST(mailboxes)
{
	becomes("a.mbox",
	        "From a@x Mon\nSubject: one\n\n>From here\ntext\n\nFrom there we go\n\nFrom b@x Tue\nSubject: two\n\nmore\n",
	        "one\n\nFrom here\ntext\n\nFrom there we go\n\ntwo\n\nmore", "");
}

TEST(saved_pages)
{
	becomes("a.mht",
	        "From: <Saved by Blink>\r\nSubject: x\r\nContent-Type: multipart/related; type=\"text/html\"; boundary=b\r\n\r\n--b\r\nContent-Type: text/html\r\n"
	        "Content-Transfer-Encoding: quoted-printable\r\n\r\n<html><h1>M=C3=BChle</h1><p>water =3D\r\n power\r\n--b\r\nContent-Type: image/png\r\n\r\nx\r\n--b--\r\n",
	        "Mühle\n\nwater = power", "");
}

TEST(cut_short)
{
	static const char mail[] =
		MULTI("mixed",
	              PART("Content-Type: multipart/alternative; boundary=c",
	                   "--c\r\n\r\nx\r\n--c\r\nContent-Type: text/html\r\n\r\n<p>y\r\n--c--")
	                      PART("Content-Disposition: attachment; filename*0=\"a\"; filename*1*=%20b", "=?"));

	for (size_t n = 0; n < sizeof mail; n++) {
		struct doc d = { 0 };
		struct err e = { 0 };
		char *copy = xstrndup(mail, n);

		CHECK(mail_import(copy, n, &d, &e) ? *e.msg : d.text.n > 0);
		free(copy);
		doc_free(&d);
	}
}
