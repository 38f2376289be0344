package pawl

import (
	"fmt"
	"io"
	"log/slog"
)

// Secret is a text that is never printed, such as the key of a service: fmt, JSON, slog and everything else that writes values
// get [redacted]. It is written and never read, so Build refuses a state that holds one. The zero value is empty.
type Secret struct{ text *string } // a pointer: what prints the fields of a struct prints no text

// NewSecret makes a text a secret.
func NewSecret(text string) Secret { return Secret{&text} }

// Reveal is the text.
func (s Secret) Reveal() string {
	if s.text == nil {
		return ""
	}
	return *s.text
}

// Empty reports whether there is none.
func (s Secret) Empty() bool { return s.Reveal() == "" }

const redacted = "[redacted]"

func (s Secret) String() string               { return redacted }
func (s Secret) GoString() string             { return redacted }
func (s Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
func (s Secret) LogValue() slog.Value         { return slog.StringValue(redacted) }

// Format writes [redacted], whatever the verb.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, redacted) }
