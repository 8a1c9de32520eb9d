"""Log-in and log-out.

Decides who gets a session, with Django's own forms; too many failures wait. Refuses to say whether a name exists.
"""

from __future__ import annotations

from typing import Any

from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.views import LoginView, LogoutView
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext_lazy as _

from dashboard import attempts
from fleet.access.decorators import public
from fleet.access.selectors import anybody


def _address(request: HttpRequest | None) -> str:
    return str(request.META.get("REMOTE_ADDR", "")) if request is not None else ""


class LogInForm(AuthenticationForm):
    """Django's form; refuses without asking the database once a name failed too often from one address."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": _("That name and password do not belong together. Both are case-sensitive."),
        "too_many": _("Ten log-ins failed within five minutes. Wait five minutes, then try again."),
    }

    def clean(self) -> dict[str, Any]:
        name, address = self.cleaned_data.get("username", ""), _address(self.request)
        if attempts.too_many(name, address):
            raise ValidationError(self.error_messages["too_many"], code="too_many")
        try:
            cleaned = super().clean()
        except ValidationError:
            attempts.failed(name, address)
            raise
        attempts.forget(name, address)
        return cleaned or {}


class LogIn(LoginView):
    authentication_form = LogInForm
    redirect_authenticated_user = True

    def get_context_data(self, **values: Any) -> dict[str, Any]:
        return {**super().get_context_data(**values), "nobody": not anybody()}

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        response = super().form_invalid(form)
        response.status_code = 429 if form.has_error("__all__", "too_many") else 200
        return response


log_in = public(LogIn.as_view())
log_out = public(LogoutView.as_view())
