# R can open the target of a descriptor, but not a socket: two processes carry the messages through pipes. They
# ignore interrupts, which the whole process group receives.
exec {asked}< <(trap '' INT && exec cat <&3 2>/dev/null)
exec {replies}> >(trap '' INT && exec cat >&3 2>/dev/null)
exec {out}>&1 {err}>&2 3>&-
boot='local({ asked <- file("/dev/fd/%d", "rb", raw = TRUE); replies <- file("/dev/fd/%d", "wb", raw = TRUE); out <- file("/dev/fd/%d", "wb", raw = TRUE); err <- file("/dev/fd/%d", "wb", raw = TRUE); n <- as.integer(rawToChar(readBin(asked, "raw", 10L))); source <- rawToChar(readBin(asked, "raw", n)); eval(parse(text = source, keep.source = FALSE, encoding = "UTF-8"), list2env(list(asked = asked, replies = replies, out = out, err = err), parent = baseenv())) })'
printf -v boot "$boot" $asked $replies $out $err
exec Rscript --no-save --no-init-file -e "$boot"
