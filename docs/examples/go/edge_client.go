// A client of the zero-layer edge with nothing but Go's standard library (1.19 or later).
//
//	EDGE_API_KEY_FILE=me.key go run edge_client.go -audience demo -ca cert.pem localhost:8443
//	go run edge_client.go -vectors ../vectors.json
//
// It offers h2, http/1.1 and the token; net/http speaks what the edge selects.
package main

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/bits"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"
)

// siphash24 is SipHash-2-4 of eight bytes, least significant first (Aumasson and Bernstein, 2012).
func siphash24(key [16]byte, data []byte) [8]byte {
	k0, k1 := binary.LittleEndian.Uint64(key[:8]), binary.LittleEndian.Uint64(key[8:])
	v0, v1 := k0^0x736f6d6570736575, k1^0x646f72616e646f6d
	v2, v3 := k0^0x6c7967656e657261, k1^0x7465646279746573
	rounds := func(count int) {
		for ; count > 0; count-- {
			v0 += v1
			v1 = bits.RotateLeft64(v1, 13) ^ v0
			v0 = bits.RotateLeft64(v0, 32)
			v2 += v3
			v3 = bits.RotateLeft64(v3, 16) ^ v2
			v0 += v3
			v3 = bits.RotateLeft64(v3, 21) ^ v0
			v2 += v1
			v1 = bits.RotateLeft64(v1, 17) ^ v2
			v2 = bits.RotateLeft64(v2, 32)
		}
	}
	// Zeros up to whole words, and the length in the highest byte of the last.
	padded := make([]byte, (len(data)/8+1)*8)
	copy(padded, data)
	padded[len(padded)-1] = byte(len(data))
	for ; len(padded) > 0; padded = padded[8:] {
		word := binary.LittleEndian.Uint64(padded)
		v3 ^= word
		rounds(2)
		v0 ^= word
	}
	v2 ^= 0xff
	rounds(4)
	var tag [8]byte
	binary.LittleEndian.PutUint64(tag[:], v0^v1^v2^v3)
	return tag
}

// Minter makes the tokens of one API key at one audience.
type Minter struct {
	keyID  [8]byte
	macKey [16]byte
}

// NewMinter derives what it needs; crypto/hkdf (Go 1.24) would do for the second half.
func NewMinter(apiKey, audience string) *Minter {
	mac := func(key []byte, data string) []byte {
		mac := hmac.New(sha256.New, key)
		mac.Write([]byte(data))
		return mac.Sum(nil)
	}
	var minter Minter
	id := sha256.Sum256([]byte("zl1 key id" + apiKey))
	copy(minter.keyID[:], id[:])
	// HKDF-SHA256 without a salt, one block of output (RFC 5869).
	prk := mac(make([]byte, sha256.Size), apiKey)
	copy(minter.macKey[:], mac(prk, "zl1 preauth"+audience+"\x01"))
	return &minter
}

// Token is the ALPN name for one connection.
func (m *Minter) Token(issuedAt uint32, nonce [8]byte) string {
	body := append([]byte(nil), m.keyID[:]...)
	body = binary.BigEndian.AppendUint32(body, issuedAt)
	body = append(body, nonce[:]...)
	tag := siphash24(m.macKey, body)
	return "ezl1-" + hex.EncodeToString(append(body, tag[:]...))
}

// Fresh is a token of now.
func (m *Minter) Fresh() (string, error) {
	var nonce [8]byte
	if _, err := rand.Read(nonce[:]); err != nil {
		return "", err
	}
	return m.Token(uint32(time.Now().Unix()), nonce), nil
}

// Transport is an http.Transport whose every connection offers a token of its own.
func Transport(minter *Minter, roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		// The token is in the TLS configuration, so each connection gets its own.
		DialTLSContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			token, err := minter.Fresh()
			if err != nil {
				return nil, err
			}
			dialer := tls.Dialer{Config: &tls.Config{
				RootCAs:    roots,
				MinVersion: tls.VersionTLS13,
				NextProtos: []string{"h2", "http/1.1", token},
			}}
			return dialer.DialContext(ctx, network, address)
		},
		// net/http leaves HTTP/2 out for those who dial themselves.
		ForceAttemptHTTP2: true,
	}
}

// readAPIKey reads the file that EDGE_API_KEY_FILE names, or EDGE_API_KEY; never an argument.
func readAPIKey() (string, error) {
	text := os.Getenv("EDGE_API_KEY")
	if file := os.Getenv("EDGE_API_KEY_FILE"); file != "" {
		content, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		text = string(content)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		return "", errors.New("no API key: set EDGE_API_KEY_FILE to a file that holds it, or EDGE_API_KEY")
	}
	return text, nil
}

func checkVectors(file string) error {
	var vectors struct {
		Siphash []struct{ Key, Message, Tag string }
		Tokens  []struct {
			APIKey   string `json:"api_key"`
			Audience string
			KeyID    string `json:"key_id"`
			MACKey   string `json:"mac_key"`
			IssuedAt uint32 `json:"issued_at"`
			Nonce    string
			Token    string
		}
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(content, &vectors); err != nil {
		return err
	}
	for _, vector := range vectors.Siphash {
		var key [16]byte
		if _, err := hex.Decode(key[:], []byte(vector.Key)); err != nil {
			return err
		}
		message, err := hex.DecodeString(vector.Message)
		if err != nil {
			return err
		}
		if tag := siphash24(key, message); hex.EncodeToString(tag[:]) != vector.Tag {
			return fmt.Errorf("SipHash of %q is %x, not %s", vector.Message, tag, vector.Tag)
		}
	}
	for _, vector := range vectors.Tokens {
		minter := NewMinter(vector.APIKey, vector.Audience)
		var nonce [8]byte
		if _, err := hex.Decode(nonce[:], []byte(vector.Nonce)); err != nil {
			return err
		}
		got := fmt.Sprintf("%x %x %s", minter.keyID, minter.macKey, minter.Token(vector.IssuedAt, nonce))
		wanted := vector.KeyID + " " + vector.MACKey + " " + vector.Token
		if got != wanted {
			return fmt.Errorf("made %s, not %s", got, wanted)
		}
	}
	fmt.Printf("%d tokens and %d tags are as in %s\n", len(vectors.Tokens), len(vectors.Siphash), file)
	return nil
}

// explain says what went wrong in words that help.
func explain(err error, minter *Minter, audience string) error {
	var remote *net.OpError
	var untrusted x509.UnknownAuthorityError
	var slow net.Error
	switch {
	case errors.As(err, &remote) && remote.Op == "remote error" &&
		remote.Err.Error() == "tls: access denied":
		return fmt.Errorf(`the edge refused the token (TLS alert access_denied). Things to check, likeliest first:
  - the audience: is '%s' the edge's keys.audience, letter for letter?
  - the API key: does "edge keys list" show its key id, %x, not revoked, not out of date,
    and for that audience?
  - the clock: this machine says %s; tokens are good 30 s back, 5 s ahead by default
  - the rate: a key may open only so many connections a second
  - the token: a new one for each connection, never one that was sent before`,
			audience, minter.keyID, time.Now().Format(time.RFC3339))
	case errors.As(err, &untrusted):
		return fmt.Errorf("the edge's certificate is not trusted: %w; is -ca right?", err)
	case errors.Is(err, syscall.ECONNRESET) || errors.As(err, &slow) && slow.Timeout():
		return fmt.Errorf("%w; an edge with kernel.answer = \"rst\" or \"drop\" refuses a token like this", err)
	}
	return err
}

func run() error {
	audience := flag.String("audience", "demo", "the edge's keys.audience")
	ca := flag.String("ca", "", "PEM `file` of certificates to trust, not the system's")
	vectors := flag.String("vectors", "", "only check this program against this `file`")
	flag.Parse()
	if *vectors != "" {
		return checkVectors(*vectors)
	}
	if flag.NArg() != 1 {
		return errors.New("where is the edge? edge_client [-audience NAME] [-ca FILE] HOST:PORT")
	}
	apiKey, err := readAPIKey()
	if err != nil {
		return err
	}
	var roots *x509.CertPool // nil: the system's
	if *ca != "" {
		pem, err := os.ReadFile(*ca)
		if err != nil {
			return err
		}
		if roots = x509.NewCertPool(); !roots.AppendCertsFromPEM(pem) {
			return fmt.Errorf("%s holds no PEM certificate", *ca)
		}
	}
	minter := NewMinter(apiKey, *audience)
	client := http.Client{Transport: Transport(minter, roots), Timeout: 30 * time.Second}

	body := `{"model":"m","max_tokens":8,"messages":[{"role":"user","content":"hello"}]}`
	request, err := http.NewRequest("POST", "https://"+flag.Arg(0)+"/v1/messages", strings.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("x-api-key", apiKey)
	request.Header.Set("anthropic-version", "2023-06-01")
	request.Header.Set("content-type", "application/json")
	response, err := client.Do(request)
	if err != nil {
		return explain(err, minter, *audience)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	fmt.Printf("%s %d, x-claude-route: %s\n%s\n",
		response.Proto, response.StatusCode, response.Header.Get("x-claude-route"), text)
	if response.StatusCode != http.StatusOK {
		return errors.New("the request was refused inside TLS; the answer says why")
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}
