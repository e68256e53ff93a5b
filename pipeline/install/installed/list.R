# Prints the packages that can be loaded, but for those that are part of R: name, version, and the directory that has them.
for (directory in .libPaths()) {
  for (file in Sys.glob(file.path(directory, "*", "DESCRIPTION"))) {
    d <- read.dcf(file, c("Package", "Version", "Priority"))
    if (d[1] != "translations" && !(d[3] %in% c("base", "recommended"))) cat(d[1], "\t", d[2], "\t", directory, "\n", sep = "")
  }
}
