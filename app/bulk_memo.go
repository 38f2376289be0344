package app

import (
	"context"
	"sync"

	"pawl/workflows/nco"
)

// memo remembers what was made of a text: the same few hundred titles make up most of a survey. It is bounded, and keeps no
// long texts, no failures, and nothing that fell back: a model may be there again for the next one.
type memo struct {
	code func(ctx context.Context, text string) (nco.Output, error)

	mu   sync.Mutex
	made map[string]nco.Output
}

const (
	memoTexts = 4096
	memoText  = 200 // bytes
)

func (m *memo) get(ctx context.Context, text string) (nco.Output, error) {
	m.mu.Lock()
	out, ok := m.made[text]
	m.mu.Unlock()
	if ok {
		return out, nil
	}
	out, err := m.code(ctx, text)
	if err != nil || len(text) > memoText || len(out.Fallbacks) > 0 {
		return out, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil || len(m.made) >= memoTexts {
		m.made = map[string]nco.Output{}
	}
	m.made[text] = out
	return out, nil
}
