/* tests/sessions/t_import_feed.c - feeds of news: RSS 2.0, RSS 1.0, Atom. */
#include "sessions/import/import_private.h"
#include "tests/lib/test.h"

#include <string.h>

static void becomes(const char *name, const char *feed, const char *want, const char *notes)
{
	struct doc d;
	struct err e = { 0 };

	CHECK_MSG(!doc_decode(name, feed, strlen(feed), &d, &e), "%s", e.msg);
	CHECK_INT(d.type, DOC_FEED);
	CHECK_STR(str_text(&d.text), want);
	CHECK_STR(str_text(&d.notices), notes);
	doc_free(&d);
}

TEST(rss)
{
	struct doc d;
	struct err e = { 0 };
	static const char feed[] =
		"<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<rss version=\"2.0\" xmlns:content=\"c\" xmlns:media=\"m\"><channel>"
		"<title>Harbour &amp; News</title><link>http://x</link><description>Ferries and storms.</description>"
		"<image><title>Logo</title><url>http://x</url></image>"
		"<item><title>Bridge open</title><pubDate>Mon, 02 Nov 2026 09:00:00 GMT</pubDate><guid>1</guid>"
		"<description>Short.</description><content:encoded><![CDATA[<p>The bridge is <b>open</b>.</p><p>It costs 3 \xa3.</p>]]></content:encoded>"
		"<media:title>A picture</media:title></item>"
		"<item><title>Storm</title><description>&lt;p&gt;A &lt;i&gt;storm&lt;/i&gt; &amp;amp; rain&lt;/p&gt;</description></item>"
		"</channel></rss>";

	becomes("news.xml", feed,
	        "Harbour & News\n\nFerries and storms.\n\nBridge open\n\nMon, 02 Nov 2026 09:00:00 GMT\n\nThe bridge is open.\n\n"
	        "It costs 3 \xc2\xa3.\n\nStorm\n\nA storm & rain",
	        "");
	CHECK(!doc_decode("news", feed, sizeof feed - 1, &d, &e));
	CHECK_INT(d.mark[0].level, 1);
	CHECK_STR(d.mark[0].text, "Harbour & News");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, d.text.n - 1)->text, "Storm");
	CHECK_INT(doc_mark_at(&d, MARK_HEADING, d.text.n - 1)->level, 2);
	doc_free(&d);
	becomes("a.rdf",
	        "<?xml version='1.0'?><rdf:RDF xmlns:rdf='r' xmlns='http://purl.org/rss/1.0/' xmlns:dc='d'><channel><title>One</title></channel>"
	        "<item><title>Two</title><dc:date>2026-11-02</dc:date><description>Three</description></item></rdf:RDF>",
	        "One\n\nTwo\n\n2026-11-02\n\nThree", "");
}

TEST(atom)
{
	becomes("a.atom",
	        "<feed xmlns='http://www.w3.org/2005/Atom'><title>Light</title><subtitle type='text'>1 &lt; 2 &amp;amp; 3</subtitle>"
	        "<entry><title>Oil</title><updated>2026-11-02T09:00:00Z</updated><summary>no</summary>"
	        "<content type='xhtml'><div><p>The <b>lamp</b></p><p>a &lt; b</p></div></content></entry>"
	        "<entry><title type='html'>Wick</title><content type='html'>&lt;ul&gt;&lt;li&gt;one&lt;li&gt;two&lt;/ul&gt;</content></entry></feed>",
	        "Light\n\n1 < 2 &amp; 3\n\nOil\n\n2026-11-02T09:00:00Z\n\nThe lamp\n\na < b\n\nWick\n\n- one\n- two",
	        "");
}

TEST(what_is_damaged_or_no_feed)
{
	struct doc d;
	struct err e = { 0 };
	static const char source[] = "<?xml version='1.0'?><feeding><title>a</title></feeding>";
	static const char empty[] = "<?xml version='1.0'?><rss version='2.0'><channel></channel></rss>";

	CHECK(!doc_decode("a.xml", source, sizeof source - 1, &d, &e) && d.type == DOC_SOURCE);
	doc_free(&d);
	CHECK(doc_decode("a.rss", empty, sizeof empty - 1, &d, &e) < 0 && strstr(e.msg, "holds no text"));
	becomes("a.rss",
	        "<rss version='2.0'><channel><title>a</title><item><title>b</title><description>c</description></item><item><title>d & e",
	        "a\n\nb\n\nc\n\nd",
	        "the document is damaged: 'feed' is not well-formed XML after line 1: the text ends there\n");
}
