package faults

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
)

// Proxy stands between one process and its Postgres, and reads enough of the protocol (version 3, in the clear) to know a commit:
// what is sent up to a Sync, or a simple query, is one batch, and one that writes outside a transaction or ends one commits.
type Proxy struct {
	URL string // what the process is given instead of the server's

	server string
	in     net.Listener
	gate   sync.RWMutex // held for writing while the line stands still
	wg     sync.WaitGroup

	mu    sync.Mutex
	links map[*link]bool
	shut  bool
	next  Harm           // what becomes of the next commit; empty: nothing
	done  chan<- outcome // is told then
}

// outcome is what became of a commit that was struck.
type outcome struct{ committed bool }

// NewProxy listens for a process that is to reach the server at an address.
func NewProxy(address string) (*Proxy, error) {
	u, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	if u.Query().Get("sslmode") != "disable" {
		return nil, errors.New("faults: a proxy reads what is said in the clear: sslmode=disable")
	}
	p := &Proxy{server: u.Host, links: map[*link]bool{}}
	if u.Port() == "" {
		p.server = net.JoinHostPort(u.Hostname(), "5432")
	}
	if p.in, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		return nil, err
	}
	u.Host = p.in.Addr().String()
	p.URL = u.String()
	p.wg.Go(p.accept)
	return p, nil
}

func (p *Proxy) accept() {
	for {
		c, err := p.in.Accept()
		if err != nil {
			return
		}
		s, err := net.Dial("tcp", p.server)
		if err != nil { // the server is down
			_ = c.Close()
			continue
		}
		l := &link{p: p, client: c, server: s, texts: map[string]string{}, status: 'I'}
		p.mu.Lock()
		p.links[l] = true
		if p.shut {
			l.cut()
		}
		p.mu.Unlock()
		p.wg.Go(l.up)
		p.wg.Go(l.down)
	}
}

// Close ends all connections and listens no more.
func (p *Proxy) Close() {
	_ = p.in.Close()
	p.mu.Lock()
	p.shut = true
	p.mu.Unlock()
	p.Cut()
	p.wg.Wait()
}

// Cut breaks all connections off. New ones are taken.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.cut()
	}
}

// Pause has the line stand still, in both directions, until what it gives is called.
func (p *Proxy) Pause() (resume func()) {
	p.gate.Lock()
	return p.gate.Unlock
}

// strike has the next commit's answer, or the commit itself, lost with its connection, and tells done of it. The function that it
// gives takes that back; false: it has been done, or is just being done.
func (p *Proxy) strike(h Harm, done chan<- outcome) (takeBack func() bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.done = h, done
	return func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		armed := p.next != ""
		p.next, p.done = "", nil
		return armed
	}
}

// struck is what becomes of a commit that is about to be sent.
func (p *Proxy) struck() (h Harm, done chan<- outcome) {
	p.mu.Lock()
	defer p.mu.Unlock()
	h, done = p.next, p.done
	p.next, p.done = "", nil
	return h, done
}

// link is one connection.
type link struct {
	p              *Proxy
	client, server net.Conn

	// Of the goroutine that reads from the client.
	texts map[string]string // of prepared statements, by name
	bound string            // the text of the statement that was bound last
	batch bytes.Buffer
	wrote bool // the batch has written something
	ends  bool // the batch has ended a transaction

	mu     sync.Mutex
	status byte           // of the transaction, as the server said last
	lost   chan<- outcome // the answer under way is not to arrive; nil: it is
	failed bool           // it is that of a batch that failed
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

func (l *link) over() {
	l.cut()
	l.p.mu.Lock()
	defer l.p.mu.Unlock()
	delete(l.p.links, l)
}

// message reads one message as it stands. That with which a connection begins has no type.
func message(r *bufio.Reader, first bool) (kind byte, all []byte, err error) {
	head := make([]byte, 5)
	if first {
		head = head[:4]
	}
	if _, err := io.ReadFull(r, head); err != nil {
		return 0, nil, err
	}
	n := binary.BigEndian.Uint32(head[len(head)-4:])
	if n < 4 || n > 1<<28 {
		return 0, nil, errors.New("faults: not the protocol of Postgres")
	}
	all = make([]byte, len(head)+int(n)-4)
	copy(all, head)
	if _, err := io.ReadFull(r, all[len(head):]); err != nil {
		return 0, nil, err
	}
	if first {
		return 0, all, nil
	}
	return head[0], all, nil
}

var writes = regexp.MustCompile(`(?i)\b(INSERT\s+INTO|DELETE\s+FROM|UPDATE\s+\w+\s+(\w+\s+)?SET)\b`)

// up carries what the client says, batch by batch.
func (l *link) up() {
	defer l.over()
	r := bufio.NewReader(l.client)
	for first := true; ; first = false {
		kind, all, err := message(r, first)
		if err != nil {
			return
		}
		_, _ = l.batch.Write(all)
		switch kind {
		case 'P': // Parse: name and text
			name, rest, _ := bytes.Cut(all[5:], []byte{0})
			text, _, _ := bytes.Cut(rest, []byte{0})
			l.texts[string(name)] = string(text)
		case 'B': // Bind: portal and name
			_, rest, _ := bytes.Cut(all[5:], []byte{0})
			name, _, _ := bytes.Cut(rest, []byte{0})
			l.bound = l.texts[string(name)]
		case 'E': // Execute
			l.executes(l.bound)
		case 'Q': // a simple query
			l.executes(string(all[5:]))
		}
		if kind == 'P' || kind == 'B' || kind == 'E' || kind == 'D' || kind == 'C' { // more of the batch comes
			continue
		}
		if !l.send() {
			return
		}
	}
}

func (l *link) executes(text string) {
	text = strings.TrimRight(strings.TrimSpace(text), "\x00; ")
	l.ends = l.ends || strings.EqualFold(text, "COMMIT")
	l.wrote = l.wrote || writes.MatchString(text)
}

// send sends the batch on, unless it is struck.
func (l *link) send() bool {
	l.mu.Lock()
	commits := l.ends || l.wrote && l.status == 'I'
	l.mu.Unlock()
	if commits {
		switch h, done := l.p.struck(); h {
		case CommitLost:
			l.cut()
			done <- outcome{}
			return false
		case AnswerLost:
			l.mu.Lock()
			l.lost, l.failed = done, false
			l.mu.Unlock()
		}
	}
	l.wrote, l.ends = false, false
	err := l.carry(l.server, l.batch.Bytes())
	l.batch.Reset()
	return err == nil
}

// carry writes while the line is open.
func (l *link) carry(to net.Conn, what []byte) error {
	l.p.gate.RLock()
	defer l.p.gate.RUnlock()
	_, err := to.Write(what)
	return err
}

// down carries what the server says, but for an answer that is to be lost.
func (l *link) down() {
	defer l.over()
	r := bufio.NewReader(l.server)
	var said bytes.Buffer
	for {
		kind, all, err := message(r, false)
		if err != nil {
			return
		}
		l.mu.Lock()
		if kind == 'Z' && len(all) == 6 { // ReadyForQuery
			l.status = all[5]
		}
		l.failed = l.failed || kind == 'E'
		lost, failed := l.lost, l.failed
		if lost != nil && kind == 'Z' {
			l.lost = nil
		}
		l.mu.Unlock()
		switch {
		case lost != nil && kind == 'Z':
			l.cut()
			lost <- outcome{committed: !failed}
			return
		case lost != nil:
			continue
		}
		_, _ = said.Write(all)
		if r.Buffered() > 0 {
			continue
		}
		if l.carry(l.client, said.Bytes()) != nil {
			return
		}
		said.Reset()
	}
}
