package audit

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"

	"github.com/sandboxmcp/sandboxmcp/audit/pack"
)

// TestPack: any receipt is read back byte for byte.
func TestPack(t *testing.T) {
	m := newRuns(7)
	ours := string(m.envelope([]byte(`{"a":"` + strings.Repeat("b\n", 3000) + `"}`)))
	p := pack.New(pack.Dictionary)
	for name, receipt := range map[string]string{
		"none": "", "ours": ours, "one byte": "x", "line ends": "\n\n\n", "not JSON": ours[:len(ours)-1], "more": ours + "\n",
		"no signature": strings.Replace(ours, ours[strings.Index(ours, `"sig":"`):], `"sig":""}]}`, 1),
		"other base64": strings.Replace(ours, `"payload":"`, `"payload":"`+"\n", 1), "URL's base64": strings.NewReplacer("+", "-", "/",
			"_").Replace(ours),
		"a line end in a key": strings.Replace(ours, `"keyid":"`, `"keyid":"`+"\n", 1), "two signatures": strings.Replace(ours, "}]}",
			`},{"keyid":"","sig":"AA=="}]}`, 1),
		"largest": string(m.envelope(bytes.Repeat([]byte{'x'}, (pack.MaxReceipt-300)/4*3))),
	} {
		t.Run(name, func(t *testing.T) {
			for _, data := range []string{"{}", `{"receipt":"` + strings.Repeat("\u00e9<&", 999) + `"}`,
				`{"a":"` + strings.Repeat("b", pack.MaxData-8) + `"}`} {
				text, signature, err := p.Pack([]byte(data), []byte(receipt))
				if err != nil {
					t.Fatal(err)
				}
				if apart := len(signature) > 1; apart != (name == "ours" || name == "largest") {
					t.Errorf("the signature is stored apart: %v", apart)
				}
				c, err := p.Unpack(text, nil)
				if err != nil {
					t.Fatal(err)
				}
				if string(c.Data()) != data || c.HasReceipt() != (receipt != "") || c.HasReceipt() != (signature != nil) {
					t.Fatalf("%d bytes of data, and a receipt: %v", len(c.Data()), c.HasReceipt())
				}
				if receipt == "" {
					continue
				}
				if got, err := c.AppendReceipt(nil, signature); err != nil || string(got) != receipt {
					t.Fatalf("the receipt is %q, %v; want %q", got, err, receipt)
				}
			}
		})
	}
}

// TestUnpackBomb: crafted bytes in the file take no more memory than the largest row.
func TestUnpackBomb(t *testing.T) {
	p := pack.New(pack.Dictionary)
	enc, err := zstd.NewWriter(nil, zstd.WithWindowSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	part := enc.EncodeAll(make([]byte, pack.MaxContent/2), nil)
	whole := enc.EncodeAll(make([]byte, 1<<30), nil)
	for name, bomb := range map[string][]byte{"one": whole, "many frames": bytes.Repeat(part, 1000),
		"a size that it has not": append([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, bytes.Repeat([]byte{0x7f}, 8)...)} {
		if c, err := p.Unpack(bomb, nil); !errors.Is(err, pack.ErrPacked) || cap(c) > 2*pack.MaxContent {
			t.Errorf("%s: %d bytes, %v; want an error", name, cap(c), err)
		}
	}
	if c, err := p.Unpack(part, nil); err != nil || len(c) != pack.MaxContent/2 {
		t.Errorf("half of it: %d bytes, %v", len(c), err)
	}
}

func FuzzUnpack(f *testing.F) {
	p := pack.New(pack.Dictionary)
	text, _, err := p.Pack([]byte("{}"), newRuns(1).envelope([]byte("{}")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, []byte("signature"))
	f.Fuzz(func(t *testing.T, text, signature []byte) {
		c, err := p.Unpack(text, nil)
		if err != nil {
			return
		}
		if len(c) > pack.MaxContent {
			t.Fatalf("%d bytes", len(c))
		}
		if r, err := c.AppendReceipt(nil, signature); err == nil && len(r) > 2*pack.MaxContent+base64.StdEncoding.EncodedLen(len(signature)) {
			t.Fatalf("a receipt of %d bytes", len(r))
		}
	})
}

// TestSizeOfRuns measures the complete file, including its indexes and its tree. Without the dictionary, runs cost
// twice as much.
func TestSizeOfRuns(t *testing.T) {
	path := logPath(t)
	l := openSigned(t, path, signing(1000))
	runs := fillRuns(t, l, 10_000)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if each := info.Size() / int64(runs); each > 1200 {
		t.Errorf("a run costs %d bytes, and may cost 1200", each)
	} else {
		t.Log(fmt.Sprint(each, " bytes each of ", runs, " runs"))
	}
}
