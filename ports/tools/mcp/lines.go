package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// lines reads messages, one a line, from whatever a program writes to its standard output.
type lines struct {
	r     *bufio.Reader
	most  int // bytes of a line
	noise func(line string)
	queue []jsonrpc.Message
}

func newLines(r io.Reader, noise func(string)) *lines {
	return &lines{r: bufio.NewReaderSize(r, 64<<10), most: maxMessage, noise: noise}
}

// next is the next message. What is none is skipped; one that is too large answers its call with errTooLarge.
func (l *lines) next() (jsonrpc.Message, error) {
	for len(l.queue) == 0 {
		line, id, err := l.line()
		switch {
		case errors.Is(err, errTooLarge) && id.IsValid():
			return &jsonrpc.Response{ID: id, Error: errTooLarge}, nil
		case errors.Is(err, errTooLarge):
			l.noise(fmt.Sprintf("a line of more than %d bytes", l.most))
			continue
		case len(bytes.TrimSpace(line)) == 0:
		default:
			if l.queue = messages(line); len(l.queue) == 0 {
				l.noise(string(line))
			}
		}
		if err != nil && len(l.queue) == 0 {
			return nil, err
		}
	}
	m := l.queue[0]
	l.queue = l.queue[1:]
	return m, nil
}

// messages are those of a line: one, or several in an array, as the revision of 2025-03-26 has them.
func messages(line []byte) (out []jsonrpc.Message) {
	all := []json.RawMessage{line}
	if line = bytes.TrimSpace(line); line[0] == '[' && json.Unmarshal(line, &all) != nil {
		return nil
	}
	for _, raw := range all {
		if m, err := jsonrpc.DecodeMessage(raw); err == nil {
			out = append(out, m)
		}
	}
	return out
}

// line is the next line; of one that is too large, the id of the message that it is.
func (l *lines) line() (line []byte, id jsonrpc.ID, err error) {
	var f *finder
	for {
		piece, err := l.r.ReadSlice('\n')
		more := errors.Is(err, bufio.ErrBufferFull)
		switch {
		case f != nil:
			f.read(piece)
		case len(line)+len(piece) > l.most:
			f = &finder{}
			f.read(line)
			f.read(piece)
			line = nil
		default:
			line = append(line, piece...)
		}
		switch {
		case more:
		case f != nil && err == nil:
			return nil, f.found(), errTooLarge
		default:
			return line, id, err
		}
	}
}

// finder finds the id of a message that goes by and is too large to be kept: the value of "id" in the outermost object.
type finder struct {
	depth         int
	text, escaped bool
	word          []byte // the key or value that is being read in the outermost object
	quoted        bool   // word is a text
	key           string
	id            string
	idText, known bool
}

func (f *finder) read(piece []byte) {
	for _, b := range piece {
		switch {
		case f.text && f.escaped:
			f.escaped = false
		case f.text && b == '\\':
			f.escaped = true
		case f.text && b == '"':
			f.text = false
		case f.text:
			f.keep(b)
		case b == '"':
			f.text, f.quoted = true, true
			f.word = f.word[:0]
		case b == '{' || b == '[':
			f.depth++
		case b == '}' || b == ']':
			f.end()
			f.depth--
		case b == ':' && f.depth == 1:
			f.key = string(f.word)
			f.word, f.quoted = f.word[:0], false
		case b == ',':
			f.end()
		case b > ' ':
			f.keep(b)
		}
	}
}

func (f *finder) keep(b byte) {
	if f.depth == 1 && len(f.word) < 64 {
		f.word = append(f.word, b)
	}
}

// end is the end of a value.
func (f *finder) end() {
	if f.depth == 1 && f.key == "id" {
		f.id, f.idText, f.known = string(f.word), f.quoted, true
	}
	if f.depth == 1 {
		f.key, f.word, f.quoted = "", f.word[:0], false
	}
}

func (f *finder) found() jsonrpc.ID {
	var value any = f.id
	if !f.idText {
		n, err := strconv.ParseFloat(f.id, 64)
		if err != nil {
			return jsonrpc.ID{}
		}
		value = n
	}
	if !f.known {
		return jsonrpc.ID{}
	}
	id, _ := jsonrpc.MakeID(value)
	return id
}
