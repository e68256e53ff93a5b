package snapshot

import "syscall"

const noAccessTime = syscall.O_NOATIME
