# The driver of an R session. The bootstrap evaluates it in an environment whose only parent is base, so that a
# program's own c or print is not used, with the connections asked, replies, out and err.
#
# A request is ten digits, a line of words of that length (operation, number, mark, and the length of each
# field in bytes), and the fields. A reply is a frame of fields that each end with a NUL byte.
#
# Known gaps: children inherit the connections; and while R waits for a child in system(), an interrupt ends only
# the child.

maxText <- 256L * 1024L
maxImage <- 16L * 1024L^2

bytes <- function(text) charToRaw(enc2utf8(text))

reply <- function(...) {
  fields <- unlist(lapply(c(...), function(f) c(bytes(f), as.raw(0L))))
  if (length(fields) > 64L * 1024L^2) stop(length(fields), " bytes are too much: use a file", call. = FALSE)
  n <- length(fields)
  head <- as.raw(c(n %/% 16777216L, n %/% 65536L %% 256L, n %/% 256L %% 256L, n %% 256L))
  suspendInterrupts({
    writeBin(c(head, fields), replies)
    flush(replies)
  })
}

receive <- function(n) {
  if (n == 0L) return("")
  text <- rawToChar(readBin(asked, "raw", n))
  Encoding(text) <- "UTF-8"
  text
}

cut <- function(text) {
  if (nchar(text, "bytes") <= maxText) return(text)
  short <- iconv(rawToChar(bytes(text)[seq_len(maxText)]), "UTF-8", "UTF-8", sub = "")
  paste0(short, "\n[", nchar(text, "bytes") - maxText, " more bytes are left out]")
}

# shortened cuts texts, and marks the place like cut does.
shortened <- function(texts) {
  more <- nchar(texts) - 200L
  ifelse(more > 0L, paste0(substr(texts, 1L, 200L), "\n[", more, " more characters are left out]"), texts)
}

# Plots: R opens a device of ours when something is drawn and none is open. Each page is a file, and the files are
# displayed when the cell ends.
pages <- NULL
opened <- integer()

newDevice <- function(...) {
  if (is.null(pages)) pages <<- tempfile("plot")
  dir.create(pages, showWarnings = FALSE)
  grDevices::png(file.path(pages, paste0(length(opened) + 1L, "-%04d.png")), 960L, 720L, res = 120L)
  opened <<- c(opened, grDevices::dev.cur())
}

showPlots <- function(id) {
  for (device in opened) if (device %in% grDevices::dev.list()) grDevices::dev.off(device)
  opened <<- integer()
  if (is.null(pages)) return()
  for (page in list.files(pages, full.names = TRUE)) {
    size <- file.size(page)
    if (size > maxImage) reply("display", id, "text/plain", paste0("[a plot of ", size, " bytes is left out]"))
    else if (size > 0) reply("display", id, "image/png", base64(readBin(page, "raw", size)))
  }
  unlink(pages, recursive = TRUE)
  pages <<- NULL
}

base64 <- function(raw) {
  digits <- bytes("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  pad <- -length(raw) %% 3L
  m <- matrix(as.integer(c(raw, raw(pad))), 3L)
  v <- rbind(m[1L, ] %/% 4L, m[1L, ] %% 4L * 16L + m[2L, ] %/% 16L, m[2L, ] %% 16L * 4L + m[3L, ] %/% 64L, m[3L, ] %% 64L)
  text <- digits[as.vector(v) + 1L]
  if (pad > 0L) text[length(text) - seq_len(pad) + 1L] <- charToRaw("=")
  rawToChar(text)
}

# Values.

printed <- function(value) {
  lines <- utils::capture.output(if (isS4(value)) methods::show(value) else print(value))
  cut(paste(lines, collapse = "\n"))
}

bundle <- function(value) {
  text <- printed(value)
  parts <- if (nzchar(text)) c("text/plain", text)
  html <- if (is.data.frame(value)) tryCatch(htmlTable(value), error = function(e) NULL)
  if (is.null(html)) parts else c(parts, "text/html", html)
}

htmlTable <- function(frame) {
  escape <- function(x) gsub(">", "&gt;", gsub("<", "&lt;", gsub("&", "&amp;", x, fixed = TRUE), fixed = TRUE), fixed = TRUE)
  row <- function(cells, tag) paste0("<tr>", paste0("<", tag, ">", escape(cells), "</", tag, ">", collapse = ""), "</tr>")
  shown <- utils::head(frame, 60L)
  columns <- lapply(shown, function(x) shortened(trimws(format(x))))
  rows <- vapply(seq_len(nrow(shown)), function(i) {
    row(c(row.names(shown)[i], vapply(columns, function(x) x[[i]], "")), "td")
  }, "")
  note <- if (nrow(frame) > 60L) paste0("<p>", nrow(frame), " rows</p>")
  paste0("<table>\n", paste(c(row(c("", names(shown)), "th"), rows), collapse = "\n"), "\n</table>", note)
}

# Cells.

# Programs find these functions before base's.
local({
  session <- attach(NULL, name = "session", warn.conflicts = FALSE)
  session$quit <- session$q <- function(save = "no", status = 0, runLast = TRUE) {
    stop(structure(list(message = "quit", call = NULL, status = status), class = c("sessionQuit", "condition")))
  }
  session$closeAllConnections <- function() {
    while (sink.number() > 0L) sink()
    ours <- vapply(list(asked, replies, out, err), as.integer, 0L)
    for (number in setdiff(as.integer(rownames(showConnections())), ours)) close(getConnection(number))
  }
})

# traceback lists the program's calls, innermost first, like R's own.
traceback <- function(calls) {
  if (length(calls) == 0L) return("")
  lines <- vapply(calls, function(x) shortened(deparse(x, nlines = 1L)[[1L]]), "")
  n <- length(lines)
  keep <- if (n > 40L) c(1:20, (n - 19L):n) else seq_len(n)
  paste(rev(paste0(keep, ": ", lines[keep])), collapse = "\n")
}

# programs reports whether a call is the program's, and not the one that evaluates it.
programs <- function(call) {
  if (!identical(call, quote(eval(expressions[[i]], globalenv())))) call
}

failure <- function(e, calls) {
  message <- paste(conditionMessage(e), collapse = "\n")
  if (inherits(e, "SyntaxError")) return(c("SyntaxError", message, message))
  call <- programs(conditionCall(e))
  where <- if (is.null(call)) "Error: " else paste0("Error in ", deparse(call, nlines = 1L)[[1L]], " : ")
  c(class(e)[[1L]], message, paste0(where, message, "\n", traceback(calls)))
}

# evaluate runs the expressions of a cell, and prints those that R would print, except the last.
evaluate <- function(code, name) {
  expressions <- tryCatch(
    parse(text = code, keep.source = TRUE, srcfile = srcfilecopy(name, code), encoding = "UTF-8"),
    error = function(e) stop(structure(list(message = conditionMessage(e), call = NULL), class = c("SyntaxError", "error", "condition")))
  )
  result <- NULL
  for (i in seq_along(expressions)) {
    if (length(result)) print(result$value)
    result <- NULL
    step <- withVisible(eval(expressions[[i]], globalenv()))
    if (step$visible) result <- step
  }
  result
}

# guarded calls f, interruptible, and returns its result, or the reason of a failure.
guarded <- function(f) {
  calls <- NULL
  tryCatch(
    withCallingHandlers(
      list(value = allowInterrupts(f())),
      error = function(e) calls <<- sys.calls(),
      warning = function(w) {
        if (!is.null(programs(conditionCall(w))) || getOption("warn") != 1L) return()
        message("Warning: ", conditionMessage(w))
        invokeRestart("muffleWarning")
      }
    ),
    sessionQuit = function(e) list(exit = as.character(bitwAnd(as.integer(e$status), 255L))),
    interrupt = function(e) list(error = c("Interrupted", "the cell was interrupted", "")),
    error = function(e) {
      begin <- Position(function(x) identical(x[[1L]], quote(evaluate)), calls, nomatch = length(calls))
      calls <- calls[-seq_len(min(length(calls), begin + 3L))]
      calls <- Filter(function(x) !identical(x[[1L]], quote(.handleSimpleError)) && !identical(x[[1L]], quote(h)), calls)
      list(error = tryCatch(failure(e, calls), error = function(e) c("error", "an error that can't be told", "")))
    }
  )
}

run <- function(id, mark, code, name, env) {
  for (pair in env) {
    at <- regexpr("=", pair, fixed = TRUE)
    do.call(Sys.setenv, structure(list(substring(pair, at + 1L)), names = substr(pair, 1L, at - 1L)))
  }
  sinks <- sink.number()
  # Input from before this cell is not for it.
  tryCatch(allowInterrupts(NULL), interrupt = function(e) NULL)
  done <- guarded(function() {
    result <- evaluate(code, name)
    if (length(result)) bundle(result$value)
  })
  while (sink.number() > sinks) sink()
  shown <- guarded(function() showPlots(id))
  if (is.null(done$error) && !is.null(shown$error)) done <- shown
  end <- c(as.raw(0L), charToRaw(mark), as.raw(0L))
  for (stream in list(out, err)) {
    writeBin(end, stream)
    flush(stream)
  }
  error <- if (is.null(done$error)) c("", "", "") else done$error
  reply("done", id, "run", if (is.null(done$exit)) "" else done$exit, error, done$value)
}

# JSON.

quoted <- function(x) {
  x <- iconv(enc2utf8(x), "UTF-8", "UTF-8", sub = "\ufffd")
  x <- gsub('(["\\\\])', "\\\\\\1", x)
  if (any(grepl("[\001-\037]", x))) {
    for (i in 1:31) x <- gsub(rawToChar(as.raw(i)), sprintf("\\u%04x", i), x, fixed = TRUE)
  }
  paste0('"', x, '"')
}

number <- function(x) {
  short <- formatC(x, digits = 15L, format = "g", width = 1L)
  exact <- !is.finite(x) | as.numeric(short) == x
  ifelse(is.finite(x), ifelse(exact, short, formatC(x, digits = 17L, format = "g", width = 1L)), "null")
}

atoms <- function(x) {
  if (is.factor(x) || inherits(x, c("Date", "POSIXt", "difftime"))) x <- as.character(x)
  text <- switch(typeof(x),
    logical = ifelse(x, "true", "false"),
    integer = as.character(x),
    double = number(x),
    character = quoted(x),
    stop("a value of type ", typeof(x), " can't be written as JSON", call. = FALSE)
  )
  text[is.na(x)] <- "null"
  unname(text)
}

object <- function(names, values) paste0("{", paste0(quoted(names), ":", values, collapse = ","), "}")
array <- function(values) paste0("[", paste(values, collapse = ","), "]")

# json returns a value as JSON: a vector of one element as that element, a data frame as its rows.
json <- function(x) {
  if (is.null(x)) return("null")
  if (is.data.frame(x)) {
    if (nrow(x) == 0L) return("[]")
    columns <- lapply(x, function(column) if (is.list(column)) vapply(column, json, "") else atoms(column))
    rows <- do.call(mapply, c(list(FUN = function(...) object(names(x), c(...)), USE.NAMES = FALSE), unname(columns)))
    return(array(rows))
  }
  if (is.matrix(x)) return(array(apply(x, 1L, function(row) array(atoms(row)))))
  whole <- !is.null(names(x)) && all(nzchar(names(x)))
  values <- if (is.list(x) && !isS4(x)) vapply(unname(unclass(x)), json, "") else atoms(x)
  if (whole && length(x)) object(names(x), values)
  else if (length(x) == 1L && !is.list(x) && !inherits(x, "AsIs")) values
  else array(values)
}

describe <- function(name) {
  x <- get(name, globalenv())
  size <- if (is.data.frame(x)) nrow(x) else length(x)
  text <- if (is.atomic(x) && is.null(dim(x))) paste(format(utils::head(x, 10L)), collapse = " ")
    else paste(utils::capture.output(utils::str(x, max.level = 1L, list.len = 5L, give.attr = FALSE, nchar.max = 600L)), collapse = " ")
  c(name, class(x)[[1L]], substr(text, 1L, 256L), as.character(size), if (is.data.frame(x)) "rows" else "elements")
}

variables <- function() {
  unlist(lapply(ls(globalenv()), function(name) {
    tryCatch(describe(name), error = function(e) c(name, "unknown", "", "0", ""))
  }))
}

# answer replies to a request other than a cell with the fields that f returns, or with its error.
answer <- function(id, f) {
  done <- guarded(f)
  sent <- if (is.null(done$error)) guarded(function() reply("done", id, done$value)) else done
  if (!is.null(sent$error)) reply("done", id, "error", sent$error[[1L]], sent$error[[2L]])
}

serve <- function() {
  head <- readBin(asked, "raw", 10L)
  if (length(head) < 10L) base::quit("no", 0L, FALSE)
  words <- strsplit(trimws(receive(as.integer(rawToChar(head)))), " ", fixed = TRUE)[[1L]]
  fields <- vapply(as.integer(words[-(1:3)]), receive, "", USE.NAMES = FALSE)
  id <- words[[2L]]
  switch(words[[1L]],
    run = run(id, words[[3L]], fields[[1L]], fields[[2L]], fields[-(1:2)]),
    set = answer(id, function() {
      assign(fields[[1L]], eval(parse(text = fields[[2L]], keep.source = FALSE, encoding = "UTF-8"), baseenv()), globalenv())
      "ok"
    }),
    get = answer(id, function() {
      if (!exists(fields[[1L]], globalenv(), inherits = FALSE)) stop(fields[[1L]], " is not set", call. = FALSE)
      c("json", json(get(fields[[1L]], globalenv())))
    }),
    vars = answer(id, function() c("vars", variables()))
  )
}

# The session has no end at which R would print deferred warnings.
options(device = newDevice, warn = 1L)
suspendInterrupts({
  reply("ready", paste(R.version$major, R.version$minor, sep = "."))
  repeat serve()
})
