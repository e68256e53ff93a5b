package host

import (
	"path"
	"slices"
	"strings"

	"github.com/sandboxmcp/sandboxmcp/cli/lazy"
)

// Block is a part of the built-in list: programs that nobody can allow, and why.
type Block struct {
	Programs []string // names, with * for any characters; versions behind them count as the same
	Why      string
}

func blockOf(why, programs string) Block { return Block{strings.Fields(programs), why} }

// Blocks is the built-in list. The facts are those of the programs' manuals and of https://gtfobins.github.io.
func Blocks() []Block {
	return []Block{
		blockOf("a shell runs any command", `sh bash rbash dash ash zsh rzsh fish ksh mksh lksh rksh pdksh csh tcsh yash posh sash elvish nu nushell xonsh
			pwsh powershell busybox toybox oil osh rc es git-shell tasksh ksshell xsh ion cmd`),
		blockOf("an interpreter runs any code: a sandbox is the place for that", `python* pypy* ipython* jython micropython pdb idle node nodejs deno bun
			qjs d8 js* rhino jjs ruby irb jruby erb rake pry byebug perl* cpan lwp-* php* lua* texlua tclsh* wish* expect R Rscript r rscript littler julia octave*
			matlab scilab sage java jshell jrunscript groovy scala kotlin kotlinc clojure clj guile* racket sbcl clisp ecl chicken csi ghci ghc
			runghc runhaskell ocaml erl escript elixir iex swift dotnet mono csharp mcs fsi gawk mawk nawk awk original-awk bwk sed gsed ed red ex
			bc dc jq gojq yq gp gnuplot maxima slsh forth gforth gst swipl prolog m4 nickle ginsh cowsay cowthink gimp* inkscape blender
			tex latex* pdflatex* pdftex xetex xelatex luatex lualatex latexmk dvips ghostscript gs sqlite* mysql* mariadb* psql pgcli mongo mongosh
			redis-cli clickhouse* duckdb influx cqlsh sqlplus ansible* puppet chef* knife salt* facter msfconsole terraform tofu pulumi
			jupyter* ipykernel pytest tox nox celery gunicorn uvicorn flask django-admin airflow nginx apache2* httpd
			pydoc* ptpython bpython pylint mypy coverage pre-commit pygmentize f2py* pythran prove instmodsh xsubpp ptar* h2ph tomlq xq* lli llc opt bugpoint llvm-* jdb jhsdb
			jexec jconsole javadoc jarsigner keytool jpackage jlink rmiregistry optscript texi2* ts-node tsx electron createdb createuser dropdb pg_* postgres initdb xsltproc`),
		blockOf("it starts another program, which the pattern would not see", `sudo sudoedit su doas env xargs gxargs nohup nice ionice timeout gtimeout stdbuf setsid
			script scriptreplay watch strace ltrace ptrace unshare nsenter chroot systemd-run systemd-nspawn machinectl systemd-inhibit run0 at atq batch crontab fcrontab
			parallel sem flock taskset chrt time gtime multitime command exec eval builtin runuser setpriv pkexec ksu sg newgrp capsh firejail bwrap fakeroot proot
			ld-linux* ld.so* ld64* ld-musl* ld-*.so* linux32 linux64 setarch i386 x86_64 prlimit choom cpulimit cgexec numactl aa-exec runcon
			start-stop-daemon daemon daemonize run-parts run-mailcap see open xdg-open gio logsave unbuffer rlwrap socket torify torsocks proxychains* tsocks
			pexec entr inotifywait fswatch watchexec nodemon pm2 supervisord supervisorctl forever softlimit setlock chpst svc sv s6-* runsv envdir envuidgid
			dbus-run-session dbus-launch dbus-send busctl gdbus ssh-agent gpg-agent faketime eatmydata valgrind perf bpftrace stap dtrace rr hyperfine
			genie dumb-init tini catatonit tmux screen byobu dtach abduco dvtm zellij tmate openvt ssh-add certbot logrotate anacron incron* task just
			env-update direnv mise asdf nix* guix distrobox toolbox lxc* incus qemu* virsh VBoxManage vagrant multipass
			scriptlive uclampset coresched enosys pipesz agetty getty sulogin login switch_root pivot_root tini-* sotruss memusage mtrace catchsegv ldd heaptrack gprofng gp-* strace-* vgdb luit
			xterm uxterm lxterm *-terminal* konsole alacritty kitty foot urxvt rxvt* not chronic ifne pee vidir vipe zrun mispipe lckdo timed-run kibitz xkibitz dislocate grc gtester pidstat scrot
			slattach procmail msgexec msgfilter fakeroot-* faked-* systemd systemd-cat systemd-socket-activate systemd-mount systemd-umount systemd-notify systemd-stdio-bridge dbus-daemon
			gapplication dbus-update-activation-environment debconf* deb-systemd-* invoke-rc.d xdg-email xdg-mime xdg-settings xdg-desktop-* xdg-user-dir xdg-screensaver runscript scanmem tdbtool
			neofetch plymouth coredumpctl userdbctl pyenv rbenv nodenv volta fnm foreman honcho overmind concurrently act consul packer nomad doppler op chamber aws-vault envconsul sops
			claude codex gemini opencode aider goose cursor* copilot ollama llm`),
		blockOf("a debugger or an editor runs any command", `gdb gdbserver lldb* cgdb rust-gdb rust-lldb gcore crash vi view vim* rvim rview vimdiff nvim gvim ex elvis emacs* jove zile mg nano rnano
			pico joe jed jmacs ne micro helix hx kak code* subl gedit kate vigr vipw visudo sensible-editor editor select-editor mcedit mc ranger nnn lf vifm
			less lesspipe more most pg man mandb info pinfo w3m lynx links elinks browsh sensible-pager pager bat batcat zless zmore xzless bzless mutt neomutt alpine mail mailx
			top htop atop btop iftop nmon ncdu dialog whiptail
			bashbug gdb-* gdbtui bzmore *-browser chromium* google-chrome* firefox* lazygit tig gitk zathura yelp libreoffice soffice`),
		blockOf("it installs or builds, which runs code that others wrote", `apt* aptitude dpkg* dnf* yum* rpm* zypper pacman* makepkg apk emerge portage brew port pkg pkcon snap* flatpak*
			pip* pipx easy_install poetry pdm hatch uv uvx conda* mamba micromamba npm npx yarn pnpm* corepack gem bundle* go gofmt cargo* rustc rustup rustdoc composer mvn* gradle* ant
			sbt lein make gmake cmake ctest cpack ninja meson bazel* buck* scons waf autoconf automake configure gcc* g++* c++* cc c89 c99 cpp clang* tcc
			ld as ar javac nasm opam cabal stack mix rebar3 luarocks cpanm opkg update-alternatives dkms dockerd docker-* podman-* podmansh buildah skopeo kaniko nerdctl ctr crictl
			gold nm ranlib strip objcopy objdump size lto-dump debootstrap containerd* runc crun youki conmon kubeadm kubelet minikube kind k3s k9s kustomize kpt ucf* kernel-install installkernel`),
		blockOf("it reaches other machines, or takes files there, past the policy for that", `ssh slogin scp sftp sshfs sshpass ssh-copy-id ssh-keygen ssh-keyscan autossh mosh* dropbear* dbclient
			rsync* rclone unison curl wget* aria2c axel httpie http https xh lftp ftp tftp ncftp* telnet rsh rlogin rexec rcp nc ncat netcat* socat websocat
			nmap hping* tcpdump tshark wireshark dumpcap ettercap mtr dig nslookup host drill whois openvpn wg wg-quick smbclient rpcclient ldapsearch
			mosquitto_* croc magic-wormhole ngrok cloudflared tailscale* gh glab hub aws gcloud gsutil az doctl helm oc flyctl heroku restic borg* duplicity minicom finger svn hg bzr cvs
			sshd ssh-* sshuttle psftp plink pscp yt-dlp youtube-dl rtorrent fping dnsmasq bq cbt scalar git-* secret-tool p11-kit*`),
		blockOf("it changes the system, or what other programs run", `dd mount* umount* losetup insmod rmmod modprobe kmod kexec iptables* ip6tables* nft ebtables arptables ufw firewall-cmd ip ifconfig route tc sysctl
			tee install cp mv ln rm rmdir unlink shred truncate split csplit chmod chown chgrp chattr setfacl setcap setfattr mkfs* mke2fs fdisk parted sfdisk cryptsetup lvm* dmsetup mdadm debugfs
			useradd usermod userdel adduser deluser groupadd gpasswd passwd chpasswd chsh chfn hostnamectl timedatectl localectl loginctl service init telinit shutdown reboot halt poweroff
			update-rc.d chkconfig ldconfig grub* efibootmgr kill killall pkill skill fuser swapon swapoff sponge mknod mkfifo link rename patch ltrace auditctl semanage setenforce
			logger wall write mesg cancel lp* dconf gsettings xdotool xclip xsel defaults launchctl osascript
			arptables-* ebtables-* xtables-* fallocate hardlink savelog fsck* e2* tune2fs resize2fs badblocks mkswap wipefs blkdiscard fsfreeze fstrim hwclock rtcwake ctrlaltdel ldattach zramctl chcon
			chage chgpasswd newusers groupmod groupmems pwconv pwunconv grpconv grpunconv cppw cpgr renice ipcrm bridge rdma devlink dcb tipc vdpa genl arp nameif mii-tool update-* locale-gen localedef zic
			systemd-tmpfiles systemd-sysusers systemd-repart systemd-sysext systemd-firstboot systemd-creds systemd-cryptenroll systemd-ask-password systemd-tty-ask-password-agent pam-auth-update unix_update`),
		blockOf("it packs or converts, with options that run programs or write any file", `zip zipsplit 7z* 7za p7zip rar unrar pax ar arj xz* zstd* lzma pigz gzexe cpio genisoimage mkisofs unsquashfs mksquashfs
			convert magick mogrify ffmpeg* exiftool pandoc highlight enscript groff troff nroff eqn pic tbl soelim openssl gpg* gpgsm age* base32 uuencode uudecode xxd iconv sort
			diff3 sdiff rg ag ack fd fdfind fzf locate updatedb ctags etags aspell ispell hunspell csvtool varnishncsa file-roller tic infocmp restic zsync nl pr
			ctags-* zipcloak zipnote zipgrep unzipsfx gzip gunzip bzip2 bunzip2 lz4* unlz4 pzstd streamzip compress uncompress funzip znew zforce bzexe cupsfilter`),
		blockOf("it would let the agent answer its own questions", `sandboxmcp*`),
	}
}

var version = lazy.Regexp(`^([a-z][a-z+_-]*?)[-._]?[0-9].*$`)

// spellings are the names under which a program may be listed: without the version and what distributions put
// behind a dot, and without the machine that a compiler is for.
func spellings(name string) []string {
	name = strings.ToLower(name)
	all := []string{name}
	if i := strings.LastIndex(name, "-gnu-"); i >= 0 {
		all = append(all, name[i+len("-gnu-"):])
	}
	for _, one := range slices.Clone(all) {
		if before, _, ok := strings.Cut(one, "."); ok && before != "" {
			all = append(all, before)
		}
	}
	for _, one := range slices.Clone(all) {
		if m := version().FindStringSubmatch(one); m != nil {
			all = append(all, m[1])
		}
	}
	return all
}

// blockReason returns why one of a program's names is on the built-in list.
func blockReason(names []string) (name, why string) {
	for _, b := range Blocks() {
		for _, pattern := range b.Programs {
			for _, name := range names {
				for _, one := range spellings(name) {
					if ok, _ := path.Match(strings.ToLower(pattern), one); ok {
						return name, b.Why
					}
				}
			}
		}
	}
	return "", ""
}
