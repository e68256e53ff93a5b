package egress

import (
	"net/netip"
	"strings"

	"golang.org/x/net/dns/dnsmessage"
)

// query is a parsed DNS query.
type query struct {
	header   dnsmessage.Header
	question dnsmessage.Question // without a name if it is malformed
	edns     bool                // RFC 6891; it has the fields below
	size     int                 // bytes of an answer on UDP
	version  byte
	dnssec   bool
}

// parse parses a message after its header, and reports whether the message is well-formed: a single question, with an
// uncompressed name, and at most one OPT.
func (q *query) parse(p *dnsmessage.Parser, message []byte) bool {
	question, err := p.Question()
	if err != nil || p.SkipQuestion() != dnsmessage.ErrSectionDone || !isUncompressed(message) {
		return false
	}
	q.question = question
	if p.SkipAllAnswers() != nil || p.SkipAllAuthorities() != nil {
		return false
	}
	for {
		h, err := p.AdditionalHeader()
		if err == dnsmessage.ErrSectionDone {
			return true
		}
		if err != nil || p.SkipAdditional() != nil {
			return false
		}
		if h.Type != dnsmessage.TypeOPT {
			continue
		}
		if q.edns || h.Name.Length != 1 {
			return false
		}
		q.edns, q.size, q.version, q.dnssec = true, int(h.Class), byte(h.TTL>>16), h.DNSSECAllowed()
	}
}

// isUncompressed reports whether the question's name, which was parsed before, has no compression pointer. dnsmessage
// would follow a pointer into the header, and then the question could not be repeated byte for byte.
func isUncompressed(message []byte) bool {
	const header = 12
	for at := header; message[at] != 0; at += 1 + int(message[at]) {
		if message[at] >= 0xc0 {
			return false
		}
	}
	return true
}

// asksFor reports whether the query asks for records of type t.
func (q query) asksFor(t dnsmessage.Type) bool {
	return q.question.Type == t || q.question.Type == dnsmessage.TypeALL
}

// answerWith returns the answer for a name with only these addresses.
func (q query) answerWith(all ...netip.Addr) answer {
	var a answer
	for _, address := range all {
		switch {
		case address.Is4() && q.asksFor(dnsmessage.TypeA):
			a.records = append(a.records, &dnsmessage.AResource{A: address.As4()})
		case address.Is6() && q.asksFor(dnsmessage.TypeAAAA):
			a.records = append(a.records, &dnsmessage.AAAAResource{AAAA: address.As16()})
		}
	}
	return a
}

// answer is the answer to a query. The zero value says that the name exists, but has no record of this type.
type answer struct {
	rcode   dnsmessage.RCode
	records []dnsmessage.ResourceBody
	reason  string // reason of a refusal
}

const (
	badVersion  = 16 // an RCode, RFC 6891 section 9
	extendedErr = 15 // an OPT option, RFC 8914
	prohibited  = 18 // an info-code of it: "unable to respond because the client is not authorized"
)

// pack appends the message to out. It returns nil for an invalid message, which is our bug.
func (a answer) pack(out []byte, q query) []byte {
	m := dnsmessage.Message{Header: dnsmessage.Header{
		ID: q.header.ID, Response: true, OpCode: q.header.OpCode, RCode: a.rcode & 0xf,
		RecursionDesired: q.header.RecursionDesired, CheckingDisabled: q.header.CheckingDisabled,
		// Without these two flags, glibc and Go treat an empty answer as a referral, and retry.
		Authoritative: true, RecursionAvailable: true,
	}}
	if q.question.Name.Length > 0 {
		m.Questions = []dnsmessage.Question{q.question}
	}
	for _, body := range a.records {
		h := dnsmessage.ResourceHeader{Name: q.question.Name, Class: dnsmessage.ClassINET, TTL: nameTTL}
		m.Answers = append(m.Answers, dnsmessage.Resource{Header: h, Body: body})
	}
	if len(a.records) == 0 && (a.rcode == dnsmessage.RCodeSuccess || a.rcode == dnsmessage.RCodeNameError) {
		m.Authorities = []dnsmessage.Resource{a.soaRecord()}
	}
	if q.edns {
		m.Additionals = []dnsmessage.Resource{a.optRecord(q)}
	}
	full, err := m.AppendPack(out)
	if err != nil {
		return nil
	}
	return full
}

// soaRecord returns the SOA record with the TTL of an empty answer (RFC 2308): that of an address if the name is
// allowed. A refusal may not be cached: a person may allow the name next, and a cache would treat names below it as
// absent, too (RFC 8020).
func (a answer) soaRecord() dnsmessage.Resource {
	var ttl uint32 = nameTTL
	if a.rcode != dnsmessage.RCodeSuccess {
		ttl = 0
	}
	root := dnsmessage.Name{Data: [255]byte{'.'}, Length: 1} // the zone is the root
	return dnsmessage.Resource{
		Header: dnsmessage.ResourceHeader{Name: root, Class: dnsmessage.ClassINET, TTL: ttl},
		Body:   &dnsmessage.SOAResource{NS: root, MBox: root, Serial: 1, Refresh: nameTTL, Retry: nameTTL, Expire: nameTTL, MinTTL: ttl},
	}
}

// optRecord returns the OPT record for a query that has one, with the reason of a refusal.
func (a answer) optRecord(q query) dnsmessage.Resource {
	var r dnsmessage.Resource
	_ = r.Header.SetEDNS0(ednsSize, a.rcode, q.dnssec) // has no errors
	opt := &dnsmessage.OPTResource{}
	if a.reason != "" {
		reason := strings.ToValidUTF8(a.reason[:min(len(a.reason), maxReason)], "")
		data := append([]byte{0, prohibited}, reason...)
		opt.Options = []dnsmessage.Option{{Code: extendedErr, Data: data}}
	}
	r.Body = opt
	return r
}
