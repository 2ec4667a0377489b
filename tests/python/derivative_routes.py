"""Every way by which torch.func differentiates a function of one vector, alone and in pairs."""

import torch
from torch import func


def _direction(x, seed):
    # Not by a generator, which vmap would ask about.
    return (torch.arange(1, 1 + x.numel(), dtype=x.dtype) * (seed + 0.7)).sin().reshape(x.shape)


def _loss(function):
    """A number that is no linear function of any output."""

    def loss(x):
        output = function(x)
        return (output * (1 + output) * _direction(output, 9).abs()).sum()

    return loss


def _pulled(function):
    """vᵀJ, as a function of where it is taken."""

    def pulled(x):
        output, pull = func.vjp(function, x)
        return pull(_direction(output, 3))[0]

    return pulled


def _pulled_within(function):
    """The same with an end to the level before anything is pulled, as jacrev has it."""
    return lambda x: func.vjp(function, x)[1](_direction(function(x).detach(), 3))[0]


def _pushed(function):
    return lambda x: func.jvp(function, (x,), (_direction(x, 4),))[1]


def _twice_by_autograd(function):
    def twice(x):
        leaf = x.detach().requires_grad_()
        (first,) = torch.autograd.grad(_loss(function)(leaf), leaf, create_graph=True)
        return torch.autograd.grad((first * _direction(x, 4)).sum(), leaf)[0]

    return twice


def _over_three(x):
    return torch.stack([x, 0.75 * x, 1.25 * x])


def _grad(function):
    return func.grad(_loss(function))


# Of a function of a vector to what a route gives at a vector.
FIRST = {
    "grad": _grad,
    "vjp": _pulled,
    "jvp": _pushed,
    "jacrev": func.jacrev,
    "jacfwd": func.jacfwd,
    "vmap": lambda f: lambda x: func.vmap(f)(_over_three(x)),
    "vmap of grad": lambda f: lambda x: func.vmap(_grad(f))(_over_three(x)),
    "vmap of jvp": lambda f: lambda x: func.vmap(_pushed(f))(_over_three(x)),
    "grad of vmap": lambda f: func.grad(lambda x: func.vmap(_loss(f))(_over_three(x)).sum()),
    "jacrev of vmap": lambda f: func.jacrev(lambda x: func.vmap(_loss(f))(_over_three(x))),
}
SECOND = {
    "autograd twice": _twice_by_autograd,
    "hessian": lambda f: func.hessian(_loss(f)),
    "jacrev of grad": lambda f: func.jacrev(_grad(f)),
    "jacfwd of grad": lambda f: func.jacfwd(_grad(f)),
    "grad of grad": lambda f: func.grad(_loss(_grad(f))),
    "vjp of grad": lambda f: _pulled(_grad(f)),
    "vjp of vjp": lambda f: _pulled(_pulled(f)),
    "vjp of vjp within": lambda f: _pulled_within(_pulled_within(f)),
    "jvp of grad": lambda f: _pushed(_grad(f)),
    "jvp of vjp": lambda f: _pushed(_pulled(f)),
    "vjp of jvp": lambda f: _pulled(_pushed(f)),
    "grad of jvp": lambda f: _grad(_pushed(f)),
    "jvp of jvp": lambda f: _pushed(_pushed(f)),
    "jacrev of jacrev": lambda f: func.jacrev(func.jacrev(_loss(f))),
    "jacfwd of jacrev": lambda f: func.jacfwd(func.jacrev(_loss(f))),
    "jacrev of jacfwd": lambda f: func.jacrev(func.jacfwd(_loss(f))),
    "jacfwd of jacfwd": lambda f: func.jacfwd(func.jacfwd(_loss(f))),
    "vmap of hessian": lambda f: lambda x: func.vmap(func.hessian(_loss(f)))(_over_three(x)),
    "vmap of jacrev of grad": lambda f: lambda x: func.vmap(func.jacrev(_grad(f)))(_over_three(x)),
    "grad of vmap of grad": lambda f: func.grad(lambda x: func.vmap(_grad(f))(_over_three(x)).square().sum()),
}
THIRD = {
    "grad of jvp of grad": lambda f: _grad(_pushed(_grad(f))),
    "jvp of jvp of jvp": lambda f: _pushed(_pushed(_pushed(f))),
    "jvp of vjp of vjp": lambda f: _pushed(_pulled(_pulled(f))),
    "vjp of vjp of vjp": lambda f: _pulled(_pulled(_pulled(f))),
    "vjp of jvp of grad": lambda f: _pulled(_pushed(_grad(f))),
}
ROUTES = FIRST | SECOND | THIRD


def of_vector(function, tensors):
    """A function of tensors as one of a vector of all their numbers, and that vector."""
    sizes = [each.numel() for each in tensors]

    def of(x):
        return function(*(part.reshape(each.shape) for part, each in zip(x.split(sizes), tensors)))

    return of, torch.cat([each.flatten() for each in tensors])
