# Nix: `nix-build -E 'with import <nixpkgs> {}; callPackage ./weir.nix {}'`.  `tests/package/package.sh formulas URL` fills in what stands between two @.
{ lib, stdenv, fetchurl, pkg-config, makeWrapper, curl, gumbo, libarchive, libseccomp, libxml2, md4c, ncurses, openssl, poppler-utils, readline, sqlite
, utf8proc, xxHash, zlib }:

stdenv.mkDerivation rec {
  pname = "weir";
  version = "@VERSION@";
  src = fetchurl {
    url = "@URL@";
    sha256 = "@SHA256@";
  };
  nativeBuildInputs = [ pkg-config makeWrapper ];
  buildInputs = [ curl gumbo libarchive libseccomp libxml2 md4c ncurses openssl readline sqlite utf8proc xxHash zlib ];
  enableParallelBuilding = true;
  makeFlags = [ "CUDA=0" "LIBRARIES=" "PREFIX=${placeholder "out"}" ];
  # libcurl is loaded when the first address is read, pdftotext is started for PDF documents.
  postInstall = ''
    wrapProgram $out/bin/weir --prefix LD_LIBRARY_PATH : ${lib.makeLibraryPath [ curl ]} --prefix PATH : ${lib.makeBinPath [ poppler-utils ]}
  '';
  meta = {
    description = "Talk with a language model in the terminal, also about long documents";
    homepage = "@HOME@";
    license = lib.licenses.gpl3Plus;
    platforms = [ "x86_64-linux" "aarch64-linux" ];
    mainProgram = "weir";
  };
}
