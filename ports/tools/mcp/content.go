package mcp

import (
	"encoding/json"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// text is what a model reads of a result: its texts; where there are none, its structured content; and of all else that there is
// such a thing.
func text(r *sdk.CallToolResult) string {
	var parts []string
	for _, c := range r.Content {
		switch c := c.(type) {
		case *sdk.TextContent:
			parts = append(parts, c.Text)
		case *sdk.ImageContent:
			parts = append(parts, fmt.Sprintf("[picture, %s, %d bytes]", c.MIMEType, len(c.Data)))
		case *sdk.AudioContent:
			parts = append(parts, fmt.Sprintf("[sound, %s, %d bytes]", c.MIMEType, len(c.Data)))
		case *sdk.ResourceLink:
			parts = append(parts, fmt.Sprintf("[link to %s: %s]", c.Name, c.URI))
		case *sdk.EmbeddedResource:
			switch res := c.Resource; {
			case res == nil:
			case res.Text != "":
				parts = append(parts, res.Text)
			default:
				parts = append(parts, fmt.Sprintf("[resource %s, %s, %d bytes]", res.URI, res.MIMEType, len(res.Blob)))
			}
		}
	}
	if len(parts) == 0 && r.StructuredContent != nil {
		if raw, err := json.Marshal(r.StructuredContent); err == nil {
			return string(raw)
		}
	}
	return strings.Join(parts, "\n")
}
