# Homebrew on Linux.  `tests/package/package.sh formulas URL` fills in what stands between two @.
class Weir < Formula
  desc "Talk with a language model in the terminal, also about long documents"
  homepage "@HOME@"
  url "@URL@"
  sha256 "@SHA256@"
  license "GPL-3.0-or-later"

  depends_on "pkgconf" => :build
  depends_on "curl"
  depends_on "gumbo-parser"
  depends_on "libarchive"
  depends_on "libseccomp"
  depends_on "libxml2"
  depends_on :linux
  depends_on "md4c"
  depends_on "ncurses"
  depends_on "openssl@3"
  depends_on "poppler"
  depends_on "readline"
  depends_on "sqlite"
  depends_on "utf8proc"
  depends_on "xxhash"
  depends_on "zlib"

  def install
    # libcurl is loaded when the first address is read.
    rpath = "-Wl,-rpath,#{Formula["curl"].opt_lib}"
    system "make", "install", "CUDA=0", "LIBRARIES=", "PREFIX=#{prefix}", "LDFLAGS=#{rpath}",
           "CFLAGS=-O2 -I#{Formula["curl"].opt_include}"
  end

  test do
    assert_match "weir #{version}", shell_output("#{bin}/weir --version")
    (testpath/"note.html").write "<h1>Harbour</h1><p>The crane lifts 40 tons.</p>"
    assert_match "The crane lifts 40 tons", shell_output("#{bin}/weir inspect document note.html")
  end
end
