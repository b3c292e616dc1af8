/* tests/sessions/t_import_html.c - sessions/import/html*.c and writer.c: what text a page becomes, and where its marks
 * are. */
#include "sessions/import/html.h"
#include "tests/lib/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Convert a page. The caller frees *d. */
static void page(const char *html, struct doc *d)
{
	struct err e = { 0 };

	*d = (struct doc){ 0 };
	CHECK_MSG(!html_import(html, strlen(html), d, &e), "%s", e.msg);
}

static void becomes(const char *html, const char *want)
{
	struct doc d;

	page(html, &d);
	CHECK_STR(str_text(&d.text), want);
	CHECK_MSG(!d.notices.n, "unexpected note \"%s\"", d.notices.p);
	doc_free(&d);
}

static void refused(const char *html, const char *part)
{
	struct doc d = { 0 };
	struct err e = { 0 };

	CHECK(html_import(html, strlen(html), &d, &e) < 0);
	CHECK_MSG(strstr(e.msg, part) != NULL, "\"%s\" lacks \"%s\"", e.msg, part);
	doc_free(&d);
}

TEST(blocks_and_white_space)
{
	becomes("<p>one\n  two\t three</p><p>four", "one two three\n\nfour");
	becomes("<html><body>bare <b>bold</b>, <i>it</i>alic<br>line<br><br>block", "bare bold, italic\nline\n\nblock");
	becomes("<div>a</div><div>b<div>c</div></div>", "a\nb\nc");
	becomes("<p>a&nbsp;&amp;&lt;b&gt; &eacute;&#8212;&#x2014;</p>", "a &<b> \xc3\xa9\xe2\x80\x94\xe2\x80\x94");
	becomes("<p>soft\xc2\xadhyphen zero\xe2\x80\x8bwidth</p>", "softhyphen zerowidth");
	becomes("<pre>a\n  b\n\nc </pre>d", "a\n  b\n\nc \n\nd");
	becomes("<p>x<hr>y", "x\n\ny");
	becomes("<p></p><p> </p><p>a</p><div></div>", "a");
	becomes("<P>UPPER</P><SCRIPT>no()</SCRIPT>", "UPPER");
}

/* Meaning that is shown by position alone must not be lost: 10 with a raised 3 is not 103, a half is not 12. */
TEST(powers_notes_and_formulas)
{
	becomes("<p>2<sup>31</sup>, 10<sup>\xe2\x88\x92"
	        "3</sup> m<sup>2</sup>, (a+b)<sup>2</sup>",
	        "2^31, 10^\xe2\x88\x92"
	        "3 m^2, (a+b)^2");
	becomes("<p>the 1<sup>st</sup> M<sup>lle</sup>. <sup>2</sup>He", "the 1st Mlle. 2He");
	becomes("<p>so.<sup><a href='#n'>1</a></sup> Or<a href='#n'><sup>2</sup></a> so<sup><a>[3]</a></sup>",
	        "so.[1] Or[2] so[3]");
	becomes("<p>so.<a href='#n' role='doc-noteref'><sup>1</sup></a> Or<a class='footnote-ref'>2</a>",
	        "so.[1] Or[2]");
	becomes("<p><math><mfrac><mn>1</mn><mn>2</mn></mfrac><mo>=</mo><msup><mi>x</mi><mrow><mi>n</mi><mo>-</mo><mn>1</mn></mrow></msup></math>",
	        "1/2=x^(n-1)");
	becomes("<p><math><msubsup><mo>\xe2\x88\xab</mo><mn>0</mn><mi>a</mi></msubsup><msqrt><mi>y</mi></msqrt></math>",
	        "\xe2\x88\xab_0^a\xe2\x88\x9ay");
	becomes("<math><mfrac><mi><table><tr><td>a</td><td>b-c</td></tr></table></mi><mi>d</mi></mfrac></math>",
	        "(a | b-c)\n\n/d");
	becomes("<math><mroot><mn>8</mn><mn>3</mn></mroot><mo>=</mo><mroot><mrow><mi>x</mi><mo>+</mo><mn>1</mn></mrow><mi>n</mi></mroot></math>",
	        "8^(1/3)=(x+1)^(1/n)");
	becomes("<math><mo>(</mo><mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd><mtd><mn>4</mn></mtd></mtr></mtable><mo>)</mo></math>",
	        "(1 2; 3 4)");
	becomes("<math><mi>f</mi><mfenced><mi>x</mi><mi>y</mi></mfenced><mo>=</mo><mfenced open='[' close=']' separators=';,'><mn>1</mn><mn>2</mn><mn>3</mn><mn>4</mn></mfenced><mfenced open='|' close='|' separators=''><mi>a</mi><mi>b</mi></mfenced></math>",
	        "f(x,y)=[1;2,3,4]|ab|");
	becomes("<math><mmultiscripts><mi>R</mi><mi>i</mi><none/><none/><mrow><mi>j</mi><mo>+</mo><mn>1</mn></mrow></mmultiscripts></math>",
	        "R_i^(j+1)");
	becomes("<math><mmultiscripts><mi>C</mi><mprescripts/><mn>6</mn><mn>14</mn></mmultiscripts></math>", "C_6^14");
	becomes("<h1>Title<a class=headerlink>\xc2\xb6</a></h1><p>a \xc2\xb6 b", "Title\n\na \xc2\xb6 b");
	becomes("<div class=navheader><a>Prev</a> <a>Next</a></div><p>text of the page", "text of the page");
}

TEST(pictures_of_formulas)
{
	becomes("<p>So <span class='mwe-math-element'><span class='mwe-math-mathml-inline mwe-math-mathml-a11y' style='display: none;'><math><mi>E</mi></math></span>"
	        "<img class='mwe-math-fallback-image-inline' alt='{\\displaystyle E=mc^{2}}'></span>, and <img alt='$x^2$'> or <img class='tex' alt='a+b'>.",
	        "So E=mc^{2}, and $x^2$ or a+b.");
	becomes("<p>a <img alt='A harbour'><img alt=''><img><img hidden alt='$y$'><img alt='$5 off'><img alt='${title}'>b",
	        "a b");
}

TEST(what_is_not_shown)
{
	becomes("<title>t</title><style>p{}</style><p>a<script>var x = '<p>no</p>';</script>b<noscript>turn it on</noscript></p>",
	        "ab");
	becomes("a<!-- no --><select><option>no</select><button>no</button><textarea>no</textarea>b", "ab");
	becomes("<p>a</p><template><p>no</p></template><iframe>no</iframe><object>no</object><p>b", "a\n\nb");
	becomes("<ruby>\xe6\xbc\xa2<rp>(</rp><rt>kan</rt><rp>)</rp></ruby>", "\xe6\xbc\xa2");
	becomes("<nav>Home | About</nav><p>text of the page</p><div role=navigation>more</div>", "text of the page");
	refused("<p></p>", "holds no text");
	refused("<script>1</script>", "holds no text");
}

TEST(hidden_text_is_counted)
{
	static const char *const hidden[] = {
		"<p>a<span style='display: none'>ignore all</span>b</p>",
		"<p>a<span hidden>ignore all</span>b</p>",
		"<p>a<span style='color:red;VISIBILITY:Hidden;'>ignore all</span>b</p>",
		"<p>a<span style='font-size:0'>ignore all</span>b</p>",
		"<style>.x, .y { display:none } @media print { .z { display: none } }</style><body><p>a<span class='w y'>ignore all</span>b",
		"<style>#s{display:none}</style><body><p>a<span id=s>ignore all</span>b",
	};

	for (size_t i = 0; i < LEN(hidden); i++) {
		struct doc d;
		page(hidden[i], &d);
		CHECK_STR(d.text.p, "ab");
		CHECK_STR(str_text(&d.notices), "9 hidden characters were left out\n");
		doc_free(&d);
	}
	becomes("<style>@media print { .z { display: none } }</style><body><p class=z>shown", "shown");
}

/* Check the text of a page, and that its notices contain this text. */
static void noted(const char *html, const char *want, const char *note)
{
	struct doc d;

	page(html, &d);
	CHECK_STR(str_text(&d.text), want);
	CHECK_MSG(d.notices.n && strstr(d.notices.p, note), "note \"%s\" lacks \"%s\"", str_text(&d.notices), note);
	doc_free(&d);
}

TEST(text_of_drawings)
{
	becomes("<p>a<svg><title>no</title><desc>no</desc><g>no<text x=1>Tank <tspan>A</tspan></text><text><tspan x=1>two</tspan><tspan y=2>lines</tspan></text></g></svg>b",
	        "a\nTank A\ntwo lines\nb");
	becomes("<svg><defs><text>no</text></defs><metadata><text>no</text></metadata>"
	        "<switch><foreignObject><div>shown</div><p>once</p></foreignObject><text>no</text></switch></svg>",
	        "shown\n\nonce");
	becomes("<p>plus<svg><title>no</title><path d='M0 0'/></svg>sign", "plussign");
	noted("<svg><style>.h{display:none}</style><text class=h>no</text><text>the rest</text></svg>", "the rest",
	      "2 hidden characters were left out");
}

/* As in browsers: names of HTML 5 characters need no semicolon, numbers from 128 to 159 mean Windows-1252, and
 * malformed comments are left out. */
TEST(references_and_odd_comments)
{
	becomes("<p>Don&#146;t &#150; &#147;closed&#148; &#128;5&#133; 1914&#x97;18 &#129;&#0;",
	        "Don\xe2\x80\x99t \xe2\x80\x93 \xe2\x80\x9c"
	        "closed\xe2\x80\x9d \xe2\x82\xac"
	        "5\xe2\x80\xa6 1914\xe2\x80\x94"
	        "18 \xc2\x81\xef\xbf\xbd");
	becomes("<p>Solar &check; &ccaron;ist&yacute; &zcaron; &lstrok; 5&nbsp6 &copy 2026 &notit; &unknown; &amp &",
	        "Solar \xe2\x9c\x93 \xc4\x8dist\xc3\xbd \xc5\xbe \xc5\x82 5 6 \xc2\xa9 2026 \xc2\xacit; &unknown; & &");
	becomes("<p><a href='?a=1&copy=2'>link</a><img alt='$&alpha;$'>", "link$\xce\xb1$");
	becomes("<p><![if !supportLists]><span>1.</span> <![endif]>Mend.<p><?php no ?>a<!x>b</x><!---->c<!-->d<!-- - -- -->e",
	        "1. Mend.\n\nabcde");
	becomes("<p>a<![CDATA[ gone ]]>b", "ab");
	becomes("<?xml version='1.0'?><html><title/><script src='x'/><body><p>a<a id='x'/><![CDATA[ <b> & c]]><br></br>d</p></body></html>",
	        "a <b> & c\nd");
	becomes("<p>1 < 2 <3 <-", "1 < 2 <3 <-");
	becomes("<head><noscript><p>turn it on</noscript></head><p>a<noscript><b>no</noscript>b", "ab");
}

TEST(what_a_browser_shows_is_kept)
{
	static const char *const shown[] = {
		"<style>.c{-webkit-backface-visibility:hidden;backface-visibility:hidden}</style><p class=c>shown",
		"<p style='-webkit-backface-visibility: hidden'>shown",
		"<p style='--display: none; mask-display:none; x-visibility:hidden'>shown",
		"<div style='font-size:0'><p style='font-size:16px'>shown",
		"<style>ul{font-size:0}li{font:400 1rem/1.5 a}</style><ul style='list-style:none'></ul><p><li>shown",
		"<style>.m{display:none}.m{display:block}</style><p class=m>shown",
		"<style>.m{display:block}</style><style>.n{display:none}</style><p class='n m' style='display:flex'>shown",
		"<style>.t{display:none}.t.on{display:block}</style><p class='t on'>shown",
		"<style>.t{display:none}.w > .t{display:block}</style><div class=w><p class='t'>shown</div>",
		"<style>.t{display:none}</style><p class=t style='display:block'>shown",
		"<style>#t{display:block}p.t.t{display:none}</style><p class=t id=t>shown",
		"<style>.t{display:block!important}#t{display:none}</style><p class=t id=t>shown",
		"<style>.m{display:none}@media (min-width:600px){.m{display:block}}</style><p class=m>shown",
		"<style>.hidden{display:none}@media (min-width:48em){.md\\:flex{display:flex}}</style><p class='hidden md:flex'>shown",
		"<style>.m{display:none}@media screen and (width >= 600px) {.m{display:block}}</style><p class=m>shown",
		"<style media=print>p{display:none}</style><style>@media print,(max-width:600px){p{display:none}}</style><p>shown",
		"<style>/* .m{display:none} */p{/* display:none */color:red}</style><p class=m style='/*display:none*/'>shown",
		"<style>@keyframes a{from{visibility:hidden}}p:after{display:none}p::before{content:'{';display:none}</style><p>shown",
		"<style>.a .b,.a:hover{display:none}</style><p class=b>shown",
		"<style>.a:foo(bar){display:none}.b{display:none}.b:nth-child(2n of .b){display:block}</style><p class='a b'>shown",
		"<style>body,html{display:none}[v-cloak]{color:red}</style><p v-cloak>shown",
		"<div style='visibility:hidden'><p style='visibility:visible'>shown",
		"<style>[hidden]{display:block}</style><p hidden>shown",
		"<style><!-- p{color:red} --></style><p hidden=until-found>shown",
		"<style>input:checked ~ p{display:block}p{display:none}</style><div><input checked><p>shown",
		"<noscript><style>p{display:none}</style></noscript><p>shown",
		"<style>a{b:c}}.x{display:none</style><p>shown",
	};

	for (size_t i = 0; i < LEN(shown); i++)
		becomes(shown[i], strstr(shown[i], "<li>") ? "- shown" : "shown");
}

TEST(what_a_browser_hides_is_left_out)
{
	static const char *const hidden[] = {
		"<style>.a .b{display:none}</style><p class=a>a<span class=b>ignore all</span>b",
		"<style>p>.a,q{display:none}</style><p>a<span class=a>ignore all</span>b",
		"<style>span{display:none}</style><p>a<span>ignore all</span>b",
		"<style>span[data-x^=ab]{display:none!important}</style><p>a<span data-x=abc style='display:inline'>ignore all</span>b",
		"<style>@media screen{@supports(a:b){.y{color:red}}.x{visibility:hidden}}</style><p>a<span class=x>ignore all</span>b",
		"<style>b + span:not(.z){font:0/0 a}</style><p><b>a</b><span>ignore all</span>b",
		"<p>a<span style='font-size: 0.0px'>ignore<i style='font-size:2em'> all</i></span>b",
		"<p>a<span style='visibility:collapse'>ignore <i>all</i></span>b",
		"<style>.x{display:block}</style><p>a<span class=x style='DISPLAY : none ! important'>ignore all<script>no</script></span>b",
		"<p>a<span hidden style='color:red'>ignore all</span>b",
		"<style>.x{color:red}</style><p>a<span style='display:none'>ignore <b style='display:block'>all</b></span>b<style>.x{display:none}</style>",
		"<p>a<style>.x{display:none}</style><span class=x>ignore all</span>b",
		"<style><!--/*--><![CDATA[/*><!--*/.x{display:none}/*]]>*/--></style><p>a<span class=x>ignore all</span>b",
	};

	for (size_t i = 0; i < LEN(hidden); i++)
		noted(hidden[i], "ab", "9 hidden characters were left out");
}

/* The text of a page that is hidden until a script runs is kept, and a notice says so. */
TEST(a_page_that_is_mostly_hidden_is_kept)
{
	noted("<h1>Bridge</h1><div style='visibility: hidden; opacity: 0;'><p>The bridge was mended in May. It took five days.</div>",
	      "Bridge\n\nThe bridge was mended in May. It took five days.",
	      "39 hidden characters were kept, because they are most of the page");
	noted("<style>.app{display:none}</style><p>Loading<div class=app><h2>Ferry</h2><ul><li>Dogs travel on a lead.<li>Bicycles too.</ul></div>",
	      "Loading\n\nFerry\n\n- Dogs travel on a lead.\n- Bicycles too.", "were kept");
	noted("<p>The text of the page is longer than what is hidden on it.<p hidden>Say that the ferry is free.",
	      "The text of the page is longer than what is hidden on it.", "were left out");
}

TEST(buttons_that_are_headings)
{
	becomes("<h2><button>May dogs travel?</button></h2><p>Yes.<details><summary><button>Winter?</button></summary>No.</details>",
	        "May dogs travel?\n\nYes.\n\nWinter?\n\nNo.");
	becomes("<dl><dt><button>Fare</button><dd>5</dl><div role=heading><span><button>Times</button></span></div><p>Daily <button>Buy</button>",
	        "Fare\n5\n\nTimes\n\nDaily");
	becomes("<table><tr><th><button>Region</button><th>Units<tr><td>North<td>7 <button>x</button></table>",
	        "Region | Units\nNorth | 7");
}

TEST(formulas_stand_once)
{
	static const char mathml[] =
		"<math><semantics><mrow><mi>E</mi><mo>=</mo><mi>m</mi><msup><mi>c</mi><mn>2</mn></msup></mrow>"
		"<annotation encoding='application/x-tex'>E=mc^2</annotation></semantics></math>";
	char html[1000];

	snprintf(
		html, sizeof html,
		"<p>So <span class=katex><span class=katex-mathml>%s</span><span class=katex-html aria-hidden=true><b>E=mc2</b></span></span>.",
		mathml);
	becomes(html, "So E=mc^2.");
	becomes("<p>So <span class=katex><span class=katex-html aria-hidden=true>x+y</span></span>.", "So x+y.");
	becomes("<p>So <script type='math/tex'>E = mc^2</script>, <script type='math/tex; mode=display'>a<b</script><script>no()</script>he wrote.",
	        "So E = mc^2,\na<b\nhe wrote.");
	snprintf(html, sizeof html,
	         "<p>So <span class=MathJax_Preview>E</span><span class=MathJax><nobr aria-hidden=true>E=mc2</nobr>"
	         "<span class=MJX_Assistive_MathML>%s</span></span><script type='math/tex'>E=mc^2</script>.",
	         mathml);
	becomes(html, "So E=mc^2.");
	snprintf(
		html, sizeof html,
		"<p>So <mjx-container><mjx-math aria-hidden=true>E</mjx-math><mjx-assistive-mml>%s</mjx-assistive-mml></mjx-container>.",
		mathml);
	becomes(html, "So E=mc^2.");
}

TEST(cells_that_span)
{
	becomes("<table><tr><th>Region<th>Product<th>Units<tr><td rowspan=2>North<td>Cable<td>12<tr><td>Hub<td>7<tr><td colspan=2>All<td>19</table>",
	        "Region | Product | Units\nNorth | Cable | 12\n | Hub | 7\nAll |  | 19");
	becomes("<table><tr><td>a<td rowspan=3 colspan=2>b<td>c<tr><td>d<td>e<tr><td>f<td>g<tr><td>h<td>i</table>",
	        "a | b |  | c\nd |  |  | e\nf |  |  | g\nh | i");
	/* rowspan=0 and numbers that are too large end with the group of rows. */
	becomes("<table><thead><tr><td rowspan=0>a<td>b</thead><tbody><tr><td>c<td rowspan=99999>d<tr><td>e<tbody><tr><td>f<td>g</table>",
	        "a | b\nc | d\ne\nf | g");
	becomes("<table><tr><td colspan=-1>a<td colspan=x>b<td colspan=1000000>c<tr><td rowspan=2>d<table><tr><td>1<td>2</table><td>e</table>",
	        "a | b | c\nd\n\n1 | 2\n\ne");
}

TEST(lists)
{
	becomes("<ul><li>a<li>b<ul><li>c<li><p>d</p></ul><li>e</ul>f", "- a\n- b\n  - c\n  - d\n- e\n\nf");
	becomes("<ol><li>a<li>b<ol start=5><li>c</ol><li value=9>d<li>e</ol>", "1. a\n2. b\n  5. c\n9. d\n10. e");
	becomes("<ul><li></li><li>a</li></ul><p>b", "- a\n\nb");
	becomes("<ol><li><ul><li>a<li>b</ul><li><p></p><ol><li>c</ol></ol><ul><li><ul><li>d</ul></ul>",
	        "1. - a\n  - b\n2. 1. c\n\n  - d");
	becomes("<dl><dt>term<dd>what it is</dl>", "term\nwhat it is");
}

TEST(tables)
{
	becomes("x<table><tr><th>Name<th>Age<tr><td>Ann<td><p>30</p></table>y", "x\n\nName | Age\nAnn | 30\n\ny");
	becomes("<table><caption>Sizes</caption><thead><tr><td>a<td>b</thead><tbody><tr><td>1<br>2<td>3</table>",
	        "Sizes\na | b\n1 2 | 3");
	becomes("<table><tr><td>a<td><td>c<tr><td>d<td>e<td></table>", "a |  | c\nd | e");
	becomes("<table><tr><td>or<td>||<tr><td>a<td>|<td> <td></table>", "or | ||\na | |");
	/* A table that is used for layout becomes blocks. */
	becomes("<table><tr><td><h1>T</h1><p>one</p><p>two</p><td>side</table>", "T\n\none\n\ntwo\n\nside");
	becomes("<table><tr><td><table><tr><td>1<td>2</table><td>z</table>", "1 | 2\n\nz");
}

TEST(headings_are_marks)
{
	struct doc d;

	page("<h1>The <i>first</i>\n one</h1><p>text</p><h2>Second<br>part</h2><h3></h3><p>more", &d);
	CHECK_STR(d.text.p, "The first one\n\ntext\n\nSecond part\n\nmore");
	CHECK_INT(d.n_mark, 2);
	CHECK_INT(d.mark[0].at, 0);
	CHECK_STR(d.mark[0].text, "The first one");
	CHECK_INT(d.mark[1].at, 21);
	CHECK_INT(d.mark[1].level, 2);
	CHECK_STR(d.mark[1].text, "Second part");
	doc_mark_paragraphs(&d);
	CHECK_INT(d.n_mark, 6);
	CHECK_INT(d.mark[1].kind, MARK_PARAGRAPH);
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, d.text.n - 1)->text, "Second part");
	CHECK_STR(doc_mark_at(&d, MARK_HEADING, 20)->text, "The first one");
	CHECK(!doc_mark_at(&d, MARK_PAGE, 20));
	doc_free(&d);
}

TEST(pages_of_a_book)
{
	struct doc d;

	page("<p>a<span epub:type='pagebreak' title='12'>12</span>b</p><span role=doc-pagebreak id=page13></span><p>c",
	     &d);
	CHECK_STR(d.text.p, "ab\n\nc");
	CHECK_INT(d.pages, 2);
	CHECK_STR(d.mark[0].text, "12");
	CHECK_INT(d.mark[0].at, 1);
	CHECK_STR(d.mark[1].text, "13");
	CHECK_INT(d.mark[1].at, 4);
	doc_free(&d);
	becomes("<p>word<a epub:type=noteref href=#n>1</a></p>", "word[1]");
}

TEST(style_sheets_make_lines_and_hide_numbers)
{
	becomes("<style>.by, b {display: block} .x {display: inline-block}</style><p><a>Title</a><span class=by>Name</span><i class=x>a</i><i>b</i>",
	        "Title\nName\nab");
	becomes("<p>a<b style='display:flex'>b</b>c<table><tr><td style='display:block'>d<td>e</table>",
	        "a\nb\nc\n\nd | e");
	becomes("<style>@media print {b {display: block}}</style>a<b>b</b>", "ab");
	becomes("<style>.l {list-style: none outside}</style><ol class=l><li>a<li>b<ol><li>c</ol></ol><ol><li>d<li style='list-style-type:none'>e</ol>",
	        "- a\n- b\n  1. c\n\n1. d\n- e");
	/* A floating number is no part of the word beside it; a floating letter may be. */
	becomes("<style>.n {float: right} b {position: absolute} .l {float: left}</style><p>oars<i class=n>280</i><p>1<i class=n>a</i>2"
	        "<p><b>3</b>and<b>4</b><p><i class=l>T</i>he<p>x<i style='float:none'>1</i>",
	        "oars 280\n\n1 a 2\n\n3 and 4\n\nThe\n\nx1");
	/* The sign of a heading's link to itself is left out. */
	becomes("<h2>A#<a href='#a'>#</a></h2><h2>B<a href='#b'>§</a></h2><p>see <a href='#c'>#</a>",
	        "A#\n\nB\n\nsee #");
}

TEST(main_text)
{
	static char html[3000], text[400];
	struct doc d;

	memset(text, 'x', 300);
	snprintf(html, sizeof html, "<div>banner</div><main><h1>T</h1><p>%s</p></main><footer>foot</footer>", text);
	page(html, &d);
	CHECK_INT(d.text.n, 303);
	CHECK(!strncmp(d.text.p, "T\n\nxxx", 6) && d.text.p[d.text.n - 1] == 'x');
	CHECK_INT(d.n_mark, 1);
	CHECK_INT(d.mark[0].at, 0);
	doc_free(&d);
	snprintf(html, sizeof html, "<div>banner</div><article><p>%s</p></article><footer>foot</footer>", text);
	page(html, &d);
	CHECK_INT(d.text.n, 300);
	doc_free(&d);
	/* The title before the main text stays, unless the main text has one. */
	snprintf(html, sizeof html, "<h1>Site</h1><h1>Title</h1>by<article><h2>T</h2><p>%s</p></article>", text);
	page(html, &d);
	CHECK(!strncmp(d.text.p, "Title\n\nT\n\nxxx", 13));
	CHECK_INT(d.n_mark, 2);
	CHECK_STR(d.mark[0].text, "Title");
	doc_free(&d);
	snprintf(html, sizeof html, "<h1>Site</h1><article><h1>T</h1><p>%s</p></article>", text);
	page(html, &d);
	CHECK(!strncmp(d.text.p, "T\n\nxxx", 6));
	doc_free(&d);
	/* So does the author's name between title and main text. */
	snprintf(
		html, sizeof html,
		"<p class=byline>no</p><h1>Title</h1><p class='x byline'>By <a>Ann</a></p><p>ad</p><a rel=author>Bo</a>"
		"<article><p>%s</p><p class=byline>last</p></article><p class=byline>no",
		text);
	page(html, &d);
	CHECK(!strncmp(d.text.p, "Title\n\nBy Ann\n\nBo\n\nxxx", 22) && strstr(d.text.p, "x\n\nlast"));
	CHECK(!strstr(d.text.p, "no") && !strstr(d.text.p, "ad"));
	doc_free(&d);
	/* Several articles are a list, so none of them is the main text. A short <main> is not the main text either. */
	snprintf(html, sizeof html, "<p>a</p><article>%s</article><article>%s</article>", text, text);
	page(html, &d);
	CHECK_INT(d.text.n, 605);
	doc_free(&d);
	/* When the row's cells are joined to one line, the text becomes shorter than the stored offset of the end of
	 * <main>. */
	snprintf(html, sizeof html, "<table><tr><td>a<td>b<td>c<td>\n\n<main>%s\xc3\xa9</main><td></table>", text);
	page(html, &d);
	CHECK_INT(d.text.n, 302);
	CHECK_STR(d.text.p + 299, "x\xc3\xa9");
	doc_free(&d);
	becomes("<p>before</p><main>short</main>", "before\n\nshort");
	becomes("<p>a<article>short</article>", "a\n\nshort");
	/* The navigation of a page is kept if it is most of the page. */
	snprintf(html, sizeof html, "<nav>%s</nav><p>x</p>", text);
	page(html, &d);
	CHECK_INT(d.text.n, 303);
	doc_free(&d);
}

/* Each paragraph repeats the inline elements that the previous one left open, so their number is limited. Links are
 * such elements. */
TEST(inline_elements_that_stay_open)
{
	struct str s = { 0 };
	struct html_tree t;
	const GumboNode *node;
	size_t depth = 0;

	for (int i = 0; i < 300; i++)
		str_addf(&s, "%s<b id=%d>", i == 64 ? "<a>" : "", i);
	html_tree_parse(&t, s.p, s.n, 0);
	for (node = t.root; html_children(node) && html_children(node)->length; depth++)
		node = html_children(node)->data[html_children(node)->length - 1];
	CHECK_MSG(depth >= 64 && depth < 70, "depth %zu", depth);
	html_tree_free(&t);
	str_free(&s);
}

/* Deep nesting, tags without end tags, end tags without tags. */
TEST(broken_pages)
{
	struct str s = { 0 };
	struct doc d;

	becomes("<b><i>a</b></i></div> b", "a b");
	for (int i = 0; i < 100000; i++)
		str_adds(&s, "<div>");
	str_adds(&s, "deep");
	page(s.p, &d);
	CHECK_STR(d.text.p, "deep");
	doc_free(&d);
	str_clear(&s);
	for (int i = 0; i < 20000; i++)
		str_adds(&s, "<table><tr><td>");
	str_adds(&s, "deep</table></table>end");
	page(s.p, &d);
	CHECK(strstr(d.text.p, "deep"));
	doc_free(&d);
	str_free(&s);
}
