package mcp

import (
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Starting says whether a server's start is under way.
func Starting(s *Server) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.starting != nil
}

func TestText(t *testing.T) {
	for want, r := range map[string]*sdk.CallToolResult{
		"":        {},
		"a\nb":    {Content: []sdk.Content{&sdk.TextContent{Text: "a"}, &sdk.TextContent{Text: "b"}}, StructuredContent: map[string]any{"n": 1}},
		`{"n":1}`: {StructuredContent: map[string]any{"n": 1}},
		"[picture, image/png, 3 bytes]\n[sound, audio/wav, 1 bytes]": {Content: []sdk.Content{
			&sdk.ImageContent{MIMEType: "image/png", Data: []byte("abc")}, &sdk.AudioContent{MIMEType: "audio/wav", Data: []byte("a")},
		}},
		"[link to notes: file:///notes]\nthe text\n[resource file:///x, application/pdf, 2 bytes]": {Content: []sdk.Content{
			&sdk.ResourceLink{Name: "notes", URI: "file:///notes"}, &sdk.EmbeddedResource{Resource: &sdk.ResourceContents{Text: "the text"}},
			&sdk.EmbeddedResource{Resource: &sdk.ResourceContents{URI: "file:///x", MIMEType: "application/pdf", Blob: []byte("ab")}}, &sdk.EmbeddedResource{},
		}},
	} {
		if got := text(r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
