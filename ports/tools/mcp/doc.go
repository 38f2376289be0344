// Package mcp speaks to servers of tools by the Model Context Protocol: programs that it starts, over their standard input and
// output, and addresses, over streamable HTTP; in the current revision of the protocol, and in the ones before where a server has
// no newer.
//
// It may never trust a server. What becomes of a run, whatever its server does:
//
//   - It does not answer, or only says that it is alive: the call ends with CodeTimeout after Config.Timeout. A server that has
//     answered nothing at all meanwhile is ended, and started anew at the next call.
//   - It dies, or closes the connection: calls under way end with CodeUnavailable and what it last said on standard error. The
//     next call starts it anew: at once the first time, then after 0.5 s, 1 s, 2 s and so on up to 30 s, until one is answered.
//     What comes earlier is answered with CodeUnavailable and the time to wait, for the engine's retries.
//   - It does not start: the same; a slow start is waited for, for Config.Start in all.
//   - It prints what is no message of the protocol: that line is skipped, and told to Config.Warn.
//   - Its answer is larger than 8 MB: the call has a result that says so. Of less than that, the text is cut at Config.MaxResult.
//   - It answers a call that nobody made: that is ignored.
//   - Its tools change: the next list has the new ones.
//   - It asks back (for input, for a model, for folders): it is refused.
//   - Its program has started others: they end with it.
//
// A call that was sent and had no answer may have been carried out. It is retryable only where the server marks the tool as
// read-only or idempotent. The key of the call in the run goes along as _meta "pawl/idempotencyKey", for servers that know it.
//
// What a server says when it fails goes into errors without Config.Secrets. What a tool answers is data, and stays as it is.
//
// Start reading at Config and Open, then Server.Call, session.go (how a server is started again) and stdio.go.
package mcp
