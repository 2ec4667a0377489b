#include "cogwheel/serve/http_server.h"

#include <fmt/format.h>
#include <httplib.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <future>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <thread>
#include <utility>

#include "cogwheel/core/encoding/utf8.h"
#include "cogwheel/core/error.h"
#include "cogwheel/serve/connection_threads.h"

namespace cogwheel::serve {
namespace {

constexpr const char* own_address = "127.0.0.1";
constexpr const char* json_type = "application/json";

void answer_error(httplib::Response& response, int status, std::string_view message) {
  response.status = status;
  const nlohmann::json body{{"error", one_line(message)}};
  response.set_content(body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), json_type);
}

// As it is: the library compresses contents of its own, which takes longer than any reader on this machine gains.
void send(httplib::Response& response, HttpReply reply) {
  const auto body = std::make_shared<const std::string>(std::move(reply.body));
  response.set_content_provider(body->size(), reply.type,
                                [body](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                  return sink.write(body->data() + offset, length);
                                });
}

bool is_json_type(std::string_view type) { return type.substr(0, type.find(';')) == json_type; }

}  // namespace

bool is_own_host(std::string_view host) {
  if (const std::size_t colon = host.rfind(':'); colon != std::string_view::npos) {
    const std::string_view port = host.substr(colon + 1);
    if (port.empty() || port.find_first_not_of("0123456789") != std::string_view::npos) return false;
    host = host.substr(0, colon);
  }
  return host == own_address || host == "localhost";
}

struct HttpServer::Implementation {
  // Work that one thread asks for and another does.
  class Queue {
   public:
    HttpReply run(std::function<HttpReply()> work) {
      std::packaged_task<HttpReply()> task(std::move(work));
      std::future<HttpReply> reply = task.get_future();
      {
        const std::lock_guard lock(mutex_);
        if (closed_) throw Error("server: expected a request before it ends, got one after");
        tasks_.push_back(std::move(task));
      }
      arrived_.notify_one();
      return reply.get();
    }

    // Does what has been asked for, or waits a little.
    void work() {
      std::unique_lock lock(mutex_);
      if (!arrived_.wait_for(lock, std::chrono::milliseconds(100), [&] { return !tasks_.empty(); })) return;
      std::packaged_task<HttpReply()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
    }

    void close() {
      const std::lock_guard lock(mutex_);
      closed_ = true;
      tasks_.clear();  // who waits meets a broken promise
    }

   private:
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<std::packaged_task<HttpReply()>> tasks_;
    bool closed_ = false;
  };

  httplib::Server server;
  Queue queue;
  int port = 0;

  httplib::Server::Handler answering(Handler handler) {
    return [this, handler = std::move(handler)](const httplib::Request& request, httplib::Response& response) {
      try {
        send(response, queue.run([&] { return handler(request.body); }));
      } catch (const Error& error) {
        // An answer like others: with a status of 400 a browser would log it beside its own errors.
        answer_error(response, 200, error.what());
      } catch (const std::exception& error) {
        // Of libtorch's messages, the first line says what is wrong.
        const std::string_view message = error.what();
        answer_error(response, 500, expected_got("server", "an answer", message.substr(0, message.find('\n'))));
      }
    };
  }

  // Refuses what this machine's own pages do not send.
  httplib::Server::HandlerResponse guard(const httplib::Request& request, httplib::Response& response) const {
    const std::string host = request.get_header_value("Host"), origin = request.get_header_value("Origin");
    if (request.get_header_value_count("Host") != 1 || !is_own_host(host)) {
      answer_error(response, 403, expected_got("Host", "127.0.0.1 or localhost", host));
      return httplib::Server::HandlerResponse::Handled;
    }
    if (request.has_header("Origin") && origin != "http://" + host) {
      answer_error(response, 403, expected_got("Origin", "http://" + host, origin));
      return httplib::Server::HandlerResponse::Handled;
    }
    return httplib::Server::HandlerResponse::Unhandled;
  }
};

HttpServer::HttpServer(int port, std::string_view what) : implementation_(std::make_unique<Implementation>()) {
  httplib::Server& server = implementation_->server;
  // The library's own options let two servers share a port, each of which then gets some of the requests.
  server.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  server.new_task_queue = [] { return new ConnectionThreads(most_connections); };
  server.set_payload_max_length(largest_body);
  server.set_keep_alive_max_count(1000);
  server.set_keep_alive_timeout(1);  // seconds that the end waits for a browser that keeps a connection
  server.set_tcp_nodelay(true);
  server.set_default_headers({{"Cache-Control", "no-store"},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"}});
  server.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    return implementation_->guard(request, response);
  });
  server.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
    if (!response.body.empty()) return;
    if (response.status == 413)
      return answer_error(response, 413,
                          expected_got("request", fmt::format("at most {} bytes", largest_body), "more"));
    if (response.status == 404)
      return answer_error(response, 404,
                          expected_got("request", "a path of this server", request.method + " " + request.path));
    answer_error(response, response.status, expected_got("request", "HTTP that this server reads", "other bytes"));
  });
  errno = 0;
  if (port == 0)
    implementation_->port = server.bind_to_any_port(own_address);
  else
    implementation_->port = server.bind_to_port(own_address, port) ? port : -1;
  if (implementation_->port < 0)
    throw Error(
        expected_got(what, "a free port (0 takes any)",
                     fmt::format("{}, {}", port, errno == EACCES ? "which needs more rights" : "which is in use")));
}

HttpServer::~HttpServer() = default;

void HttpServer::get(const std::string& path, Handler handler) {
  implementation_->server.Get(path, implementation_->answering(std::move(handler)));
}

void HttpServer::post(const std::string& path, Handler handler) {
  auto answer = implementation_->answering(std::move(handler));
  implementation_->server.Post(path, [answer](const httplib::Request& request, httplib::Response& response) {
    // A form of another page can send any text, but not this type.
    if (const std::string type = request.get_header_value("Content-Type"); !is_json_type(type))
      return answer_error(response, 415, expected_got("Content-Type", json_type, type));
    if (const std::size_t at = find_non_text(request.body); at != std::string::npos)
      return answer_error(response, 400, expected_got("request", "UTF-8", code_point_text(request.body, at)));
    answer(request, response);
  });
}

int HttpServer::port() const { return implementation_->port; }

std::string HttpServer::address() const { return fmt::format("http://{}:{}/", own_address, port()); }

void HttpServer::serve(const std::function<bool()>& stop) {
  std::thread listening([&] { implementation_->server.listen_after_bind(); });
  while (!stop()) implementation_->queue.work();
  implementation_->queue.close();
  implementation_->server.stop();
  listening.join();
}

}  // namespace cogwheel::serve
