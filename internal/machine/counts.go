package machine

import (
	"slices"
	"strconv"

	"pawl/internal/codec"
)

// Count is how often a bounded edge was taken.
type Count struct {
	Node string `json:"n"`
	Edge string `json:"e"`
	N    int    `json:"c"`
}

// Counts are sorted by node and edge. They are never changed in place: every commit writes them, few commits change them.
type Counts []Count

// find is the place of an edge. There are few, so it looks at one after the other.
func (cs Counts) find(node, edge string) (int, bool) {
	for i := range cs {
		c := &cs[i]
		if c.Node == node && c.Edge == edge {
			return i, true
		}
		if c.Node > node || c.Node == node && c.Edge > edge {
			return i, false
		}
	}
	return len(cs), false
}

// Of says how often an edge was taken.
func (cs Counts) Of(node, edge string) int {
	if i, ok := cs.find(node, edge); ok {
		return cs[i].N
	}
	return 0
}

// Plus are the counts after the edge was taken once more.
func (cs Counts) Plus(node, edge string) Counts {
	i, ok := cs.find(node, edge)
	if !ok {
		return slices.Insert(slices.Clip(cs), i, Count{Node: node, Edge: edge, N: 1})
	}
	out := slices.Clone(cs)
	out[i].N++
	return out
}

// put encodes the counts by hand, as they are part of every row.
func (cs Counts) put(o *codec.Flat, name string) {
	if len(cs) > 0 {
		o.Put(name, cs.append)
	}
}

func (cs Counts) append(b []byte) []byte {
	b = append(b, '[')
	for i, c := range cs {
		if i > 0 {
			b = append(b, ',')
		}
		b = codec.AppendString(append(b, `{"n":`...), c.Node)
		b = codec.AppendString(append(b, `,"e":`...), c.Edge)
		b = strconv.AppendInt(append(b, `,"c":`...), int64(c.N), 10)
		b = append(b, '}')
	}
	return append(b, ']')
}
