// A server for one user on the same machine: it listens on 127.0.0.1 alone, and its handlers run one after another on
// the thread that serves, so that they need no locks and a model keeps to one team of threads.
//
// A page elsewhere cannot read what is served here: a request whose Host is another name than this machine's is refused
// (DNS rebinding), and so is one that a page of another origin sends.
#pragma once
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace cogwheel::serve {

struct HttpReply {
  std::string type;  // "text/html; charset=utf-8"
  std::string body;
};

class HttpServer {
 public:
  // `body` is empty for GET. What a handler throws is answered as {"error": message}: Error with status 200, as a
  // refusal is what the server says to a question; other exceptions, which are faults, with 500.
  using Handler = std::function<HttpReply(std::string_view body)>;

  // Port 0: any free one. Throws Error that begins with `what` where the port cannot be had.
  HttpServer(int port, std::string_view what);
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;
  ~HttpServer();

  void get(const std::string& path, Handler handler);
  void post(const std::string& path, Handler handler);  // of application/json in UTF-8, else the request is refused

  int port() const;
  std::string address() const;  // "http://127.0.0.1:7341/"

  // Until `stop`, asked several times a second, is true.
  void serve(const std::function<bool()>& stop);

  static constexpr std::size_t largest_body = std::size_t{1} << 20;
  static constexpr std::size_t most_connections = 512;  // at once

 private:
  struct Implementation;
  std::unique_ptr<Implementation> implementation_;
};

// Whether a Host header, "localhost:7341", names this machine.
bool is_own_host(std::string_view host);

}  // namespace cogwheel::serve
