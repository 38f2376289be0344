package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"

	"pawl"
	"pawl/internal/codec"
	"pawl/internal/delta"
	"pawl/store"
)

// Limits of what is stored.
const (
	MaxState  = 8 << 20
	MaxResult = 4 << 20
	MaxEvent  = 256 << 10
	inline    = 64 << 10 // larger results go into a blob of the run
)

// checksum of a state finds damage when it is read back. It is part of every commit, so it is no cryptographic hash, but the
// CRC-32C that processors compute.
func checksum(state []byte) string {
	return strconv.FormatUint(uint64(crc32.Checksum(state, crc32.MakeTable(crc32.Castagnoli)))|1<<32, 16)[1:]
}

var everything = store.Scope{All: true}

// frame appends a step's head and its record of the state.
func frame(b []byte, head *stepHead, state []byte) []byte {
	const room = 4 // for the length of the head, which is known when it is written
	at := len(b)
	o := codec.FlatOn(append(b, make([]byte, room)...))
	head.fields(o)
	b = o.Bytes()
	n := len(b) - at - room
	for i := range room - 1 {
		b[at+i] = byte(n>>(7*i)) | 0x80
	}
	b[at+room-1] = byte(n >> (7 * (room - 1)))
	return append(b, state...)
}

// framed tells a row of the step log, whose first byte always has its high bit set, from one that is JSON.
func framed(row store.Row) bool { return len(row.Data) > 0 && row.Data[0] >= 0x80 }

func unframe(row store.Row) (head stepHead, state []byte, err error) {
	n, w := binary.Uvarint(row.Data)
	if w <= 0 || n > uint64(len(row.Data)-w) {
		return head, nil, fmt.Errorf("step %d: the row is broken", row.Seq)
	}
	if err := json.Unmarshal(row.Data[w:w+int(n)], &head); err != nil {
		return head, nil, fmt.Errorf("step %d: %w", row.Seq, err)
	}
	return head, row.Data[w+int(n):], nil
}

// stateAt reads the state that holds after row last, going back to its full copy.
func (e *Engine) stateAt(ctx context.Context, s store.Scope, run string, full, last int64, want string) ([]byte, error) {
	rows, err := e.store.Read(ctx, s, run, store.Query{Stream: store.Step, After: full - 1, Limit: int(last - full + 1)})
	if err != nil {
		return nil, err
	}
	var records [][]byte
	for _, row := range rows {
		_, record, err := unframe(row)
		if err != nil {
			return nil, err
		}
		if len(record) > 0 {
			records = append(records, record)
		}
	}
	state, err := delta.Fold(records...)
	if err != nil {
		return nil, &pawl.Error{Code: pawl.CodeInternal, Run: run, Text: fmt.Sprintf("the state of step %d: %v", last, err)}
	}
	if got := checksum(state); got != want {
		return nil, &pawl.Error{Code: pawl.CodeInternal, Run: run, Text: fmt.Sprintf("the state of step %d does not verify: hash %s, recorded %s", last, got, want)}
	}
	return state, nil
}

// headOf reads the head of one row of the step log.
func (e *Engine) headOf(ctx context.Context, s store.Scope, run string, step int64) (stepHead, error) {
	rows, err := e.store.Read(ctx, s, run, store.Query{Stream: store.Step, After: step - 1, Limit: 1})
	if err != nil {
		return stepHead{}, err
	}
	if len(rows) == 0 || step < 1 {
		return stepHead{}, &pawl.Error{Code: pawl.CodeNotFound, Run: run, Text: fmt.Sprintf("the run has no step %d", step)}
	}
	h, _, err := unframe(rows[0])
	return h, err
}

// blob reads a large value.
func (e *Engine) blob(ctx context.Context, s store.Scope, run, key string) ([]byte, error) {
	rows, err := e.store.Read(ctx, s, run, store.Query{Stream: store.Blob, Key: key})
	if err != nil {
		return nil, err
	}
	if len(rows) == 0 {
		return nil, errors.New("a blob of the run is missing: " + key)
	}
	return rows[0].Data, nil
}

// result is what an entry recorded, wherever it is kept.
func (e *Engine) result(ctx context.Context, en *entry) ([]byte, error) {
	if owner, key, ok := strings.Cut(en.Blob, "/"); ok {
		return e.blob(ctx, everything, owner, key)
	}
	return en.Result, nil
}
