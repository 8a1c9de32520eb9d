from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('inventory', '0002_half_open'),
    ]

    operations = [
        migrations.AddField(
            model_name='cluster',
            name='prometheus_credential',
            field=models.CharField(blank=True, default='', max_length=300),
        ),
        migrations.AddField(
            model_name='cluster',
            name='prometheus_tenant',
            field=models.CharField(blank=True, default='', max_length=200),
        ),
        migrations.AddField(
            model_name='cluster',
            name='prometheus_ca',
            field=models.CharField(blank=True, default='', max_length=500),
        ),
        migrations.AddField(
            model_name='cluster',
            name='prometheus_match',
            field=models.CharField(blank=True, default='', max_length=300),
        ),
        migrations.AddField(
            model_name='cluster',
            name='metrics_source',
            field=models.CharField(choices=[('auto', 'Automatic'), ('scrape', 'Scrape'), ('query', 'Query')], default='auto', max_length=8),
        ),
        migrations.AddField(
            model_name='cluster',
            name='grafana_url',
            field=models.CharField(blank=True, default='', max_length=1024),
        ),
    ]
