#!/bin/sh
# texts.sh FOLDER: make the documents of questions.jsonl. Needs Debian 12's package sources, python3, git and ./weir.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$1
mkdir -p "$out/deb"
cd "$out"
packages='apache2-doc bash-doc crawl-common debian-faq debian-handbook debian-reference-en gimp-help-en git-doc jargon-text
	libpython3.11-minimal mutt postgresql-doc-15 r-cran-janeaustenr vim-doc zlib1g-dev'
(cd deb && apt-get download $packages && for deb in *.deb; do dpkg-deb -x "$deb" .; done)
doc=deb/usr/share/doc

zcat $doc/debian/FAQ/debian-faq.en.txt.gz >m_debian-faq.txt
zcat $doc/jargon-text/jargon.txt.gz | head -c 600000 >m_jargon.txt
zcat $doc/mutt/manual.txt.gz >m_mutt.txt
plain() { "$root/weir" inspect document "$@" 2>/dev/null; }
for page in apt packaging-system network-services advanced-administration; do
	plain "$doc/debian-handbook/html/en-US/$page.html"
done >m_handbook.txt
plain $doc/bash/bashref.html >m_bash.txt
for page in git-rebase gittutorial gitcore-tutorial git-bisect-lk2009 giteveryday gitfaq; do
	cat "$doc/git-doc/$page.txt" 2>/dev/null || :
done >m_git.txt
for page in mvcc indexes-types runtime-config-wal backup-file wal-intro auth-pg-hba-conf explicit-locking tutorial-window textsearch-intro datatype-numeric; do
	plain "$doc/postgresql-doc-15/html/$page.html"
done >m_postgres.txt

cp deb/usr/share/crawl/docs/crawl_manual.txt m_crawl.txt
zcat deb/usr/share/debian-reference/debian-reference.en.txt.gz | head -c 500000 >m_debian-reference.txt
for page in $doc/vim/html/usr_*.html; do
	plain "$page"
done >m_vim.txt
for page in getting-started caching content-negotiation custom-error dns-caveats filter handler logs new_features_2_4 stopping suexec urlmapping \
	vhosts/name-based ssl/ssl_howto howto/htaccess howto/auth; do
	plain "$doc/apache2-doc/manual/en/$page.html" || :
done >m_apache.txt
for page in $(find deb -path '*en/gimp-*.html' | sort | awk 'NR % 6 == 0'); do
	plain "$page"
done >m_gimp.txt
cp deb/usr/lib/python3.11/argparse.py s_argparse.txt
cp deb/usr/include/zlib.h s_zlib.txt

# gutenberg REPOSITORY FILE NAME
gutenberg() { book "GITenberg/$1" "$2" "$3"; }
book() {
	git clone -q --depth 1 "https://github.com/$1" "git/$3"
	iconv -f utf8 -t utf8 "git/$3/$2" >"$3.txt" 2>/dev/null || iconv -f latin1 -t utf8 "git/$3/$2" >"$3.txt"
	sed -i 's/\r$//' "$3.txt"
}
gutenberg Jack-Sheppard--A-Romance_16215 16215-8.txt n_Jack-Sheppard
gutenberg The-Complete-Angler-1653_9198 9198-8.txt n_Complete-Angler
gutenberg American-AdventuresA-Second-Trip-Abroad-at-home-_18304 18304-8.txt n_American-Adventures
truncate -s 600000 n_American-Adventures.txt
gutenberg Charles-Dickens-and-Music_16595 16595-8.txt e_Dickens-Music
gutenberg Modern-Icelandic-PlaysEyvind-of-the-Hills--The-Hraun-Farm_21937 21937-8.txt n_Icelandic-Plays
gutenberg The-Mind-the-Paint-Girl--13-A-Comedy-in-Four-Acts_21849 21849-8.txt n_Paint-Girl
gutenberg Legend-Land-Vol.-1Railway._20170 20170-8.txt e_Legend-Land
gutenberg Critical-and-Historical-Essays--13-Lectures-delivered-at-Columbia-University_16351 16351-8.txt e_Music-Essays
book Dironiil/frankenstein-plain-text frankenstein.txt n_Frankenstein
book WilliamHoltam/Dracula-NLP dracula.txt n_Dracula
book charhart/spark-dev-u data/sherlock.txt n_Sherlock
gutenberg Katrine--A-Novel_14263 14263-8.txt n_Katrine
gutenberg News-from-Nowhere--Or-An-Epoch-of-Rest--13-Being-Some-Chapters-from-a-Utopian-Romance_3261 3261.txt n_News-from-Nowhere
gutenberg The-Little-Colonel-s-Hero_15122 15122-8.txt n_Little-Colonel
gutenberg The-Log-School-House-on-the-Columbia_14881 14881-8.txt n_Log-School-House

cp "$root/../shared/data/text/wiki.test.raw" e_wiki.txt
python3 - "$root/../shared/data/ruler/pd-essays.json" <<'PY'
import json, re, struct, sys, zlib
open('e_essays.txt', 'w').write(json.load(open(sys.argv[1]))['text'][:500000])
# The novels of janeaustenr: zlib streams, in each the lines as R's strings (type CHARSXP, length, bytes).
raw, at, novel = open('deb/usr/lib/R/site-library/janeaustenr/data/Rdata.rdb', 'rb').read(), 0, 0
while (at := raw.find(b'x\x9c', at)) >= 0:
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(raw[at:])
    except zlib.error:
        at += 1
        continue
    at = len(raw) - len(stream.unused_data)
    lines, i = [], 0
    while found := re.compile(rb'\x00[\x04\x02]\x00\x09').search(data, i):
        n = struct.unpack_from('>i', data, found.end())[0]
        if 0 <= n < 400:
            lines.append(data[found.end() + 4:found.end() + 4 + n].decode('latin1'))
        i = found.end() + 4 + max(n, 0)
    name = {0: 'n_Emma', 1: 'n_Mansfield-Park', 3: 'n_Persuasion'}.get(novel)
    if name:
        open(name + '.txt', 'w').write('\n'.join(lines))
    novel += 1
PY
