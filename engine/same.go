package engine

import (
	"bytes"
	"encoding/json"

	"pawl/internal/codec"
)

// same reports whether two JSON values are equal, whatever the order of their keys.
func same(a, b []byte) bool {
	x, errx := canonical(a)
	y, erry := canonical(b)
	return errx == nil && erry == nil && bytes.Equal(x, y)
}

func canonical(data []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	return codec.Encode(v)
}
