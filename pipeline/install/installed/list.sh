# Prints programs that there are, of those that scripts often call.
for name in git curl wget jq yq rg make cmake gcc g++ clang go rustc cargo java perl ruby php sqlite3 psql ffmpeg convert magick \
	pdftotext pandoc libreoffice tesseract zip unzip 7z rsync openssl awk sed xmllint graphviz dot gnuplot tex pdflatex; do
	path=$(type -P "$name") && printf '%s\t\t%s\n' "$name" "${path%/*}"
done
true
