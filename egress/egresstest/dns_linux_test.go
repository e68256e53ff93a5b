package egresstest

import (
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// resolver is the name server of the host and of all other machines.
type resolver struct {
	*journal
	mu      sync.Mutex
	queries map[string]int
}

func (r *resolver) packets(c net.PacketConn) {
	buf := make([]byte, 64<<10)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		if answer := r.answer(buf[:n]); answer != nil {
			c.WriteTo(answer, from)
		}
	}
}

func (r *resolver) streams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			var size [2]byte
			if _, err := io.ReadFull(c, size[:]); err != nil {
				return
			}
			query := make([]byte, binary.BigEndian.Uint16(size[:]))
			if _, err := io.ReadFull(c, query); err != nil {
				return
			}
			answer := r.answer(query)
			c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...))
		}()
	}
}

// answer answers for all sites, and for every name below each.
func (r *resolver) answer(query []byte) []byte {
	var p dnsmessage.Parser
	h, err := p.Start(query)
	if err != nil {
		r.record("query", "dns", "not a message: %q", query)
		return nil
	}
	q, err := p.Question()
	if err != nil {
		r.record("query", "dns", "no question: %q", query)
		return nil
	}
	name := strings.TrimSuffix(strings.ToLower(q.Name.String()), ".")
	r.record("query", name, "%v", q.Type)
	h.Response, h.RecursionAvailable, h.Authoritative = true, true, true
	found := siteNamed(name)
	if found == nil {
		h.RCode = dnsmessage.RCodeNameError
	}
	b := dnsmessage.NewBuilder(nil, h)
	b.EnableCompression()
	b.StartQuestions()
	b.Question(q)
	b.StartAnswers()
	if found != nil {
		r.addresses(&b, q, found)
	}
	answer, err := b.Finish()
	if err != nil {
		return nil
	}
	return answer
}

func (r *resolver) addresses(b *dnsmessage.Builder, q dnsmessage.Question, s *site) {
	head := dnsmessage.ResourceHeader{Name: q.Name, Class: dnsmessage.ClassINET}
	if s.alias != "" {
		to := dnsmessage.MustNewName(s.alias + ".")
		b.CNAMEResource(head, dnsmessage.CNAMEResource{CNAME: to})
		head.Name, s = to, siteNamed(s.alias)
	}
	addrs := s.addrs
	if s.rotates && q.Type == dnsmessage.TypeA {
		r.mu.Lock()
		i := r.queries[s.name] % len(addrs)
		r.queries[s.name]++
		r.mu.Unlock()
		addrs = addrs[i : i+1]
	}
	for _, text := range addrs {
		switch a := netip.MustParseAddr(text); {
		case a.Is4() && q.Type == dnsmessage.TypeA:
			b.AResource(head, dnsmessage.AResource{A: a.As4()})
		case a.Is6() && q.Type == dnsmessage.TypeAAAA:
			b.AAAAResource(head, dnsmessage.AAAAResource{AAAA: a.As16()})
		}
	}
}

func siteNamed(name string) *site {
	for ; name != ""; _, name, _ = strings.Cut(name, ".") {
		for i := range allSites {
			if allSites[i].name == name {
				return &allSites[i]
			}
		}
	}
	return nil
}
