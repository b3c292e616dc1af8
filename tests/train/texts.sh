#!/bin/sh
# texts.sh FOLDER: make the documents of questions.jsonl. Needs Debian 12's package sources, python3, git and ./weir.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
out=$1
mkdir -p "$out/deb"
cd "$out"
packages='bash-doc debian-faq debian-handbook git-doc jargon-text mutt postgresql-doc-15 r-cran-janeaustenr'
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

# gutenberg REPOSITORY FILE NAME
gutenberg() {
	git clone -q --depth 1 "https://github.com/GITenberg/$1" "git/$3"
	iconv -f utf8 -t utf8 "git/$3/$2" >"$3.txt" 2>/dev/null || iconv -f latin1 -t utf8 "git/$3/$2" >"$3.txt"
	sed -i 's/\r$//' "$3.txt"
}
gutenberg Jack-Sheppard--A-Romance_16215 16215-8.txt n_Jack-Sheppard
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
