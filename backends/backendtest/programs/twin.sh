# A shell's view of its environment, without documented differences: see the package doc of backends/process/warm.
echo "$0 $# $* $$ $PPID $- $_ ${BASH_SOURCE[*]} ${FUNCNAME[*]} $LINENO $BASH_SUBSHELL $SHLVL"
echo "${#SECONDS} ${#IFS} $OPTIND $UID"
declare -p | while IFS= read -r line; do
	case $line in
	*' SECONDS'* | *' RANDOM'* | *' SRANDOM'* | *' EPOCH'* | *' BASHPID'* | *' BASH_ARGC'* | *' PIPESTATUS'*) ;;
	*) echo "$line" ;;
	esac
done
declare -F
alias
shopt
set -o
trap
jobs
umask
hash
enable -a
ulimit -a
env | sort
ls -a . /tmp
for fd in /proc/$$/fd/*; do
	echo "$fd $(readlink "$fd" | sed 's/[0-9]*//g')"
done
tr '\0' ' ' </proc/$$/cmdline
while IFS= read -r line; do
	case $line in
	Name* | State* | PPid* | Uid* | Groups* | NSpid* | Threads* | Sig[PBIC]* | Shd* | Cap* | NoNew* | Seccomp*) echo "$line" ;;
	esac
done </proc/$$/status
cat
exit 3
