package backends

import "fmt"

// Etc returns files that replace the host's or the image's in a sandbox's /etc, by name. The sandbox's user has these
// numbers inside, and DNS queries go to the address that Spec.Gateway serves.
func Etc(uid, gid int) map[string]string {
	return map[string]string{
		"passwd": fmt.Sprintf("root:x:0:0:root:/root:/usr/sbin/nologin\nsandbox:x:%d:%d:sandbox:/workspace:/bin/sh\n"+
			"nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n", uid, gid),
		"group":       fmt.Sprintf("root:x:0:\nsandbox:x:%d:\nnogroup:x:65534:\n", gid),
		"hosts":       "127.0.0.1 localhost sandbox\n::1 localhost\n",
		"resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
	}
}
